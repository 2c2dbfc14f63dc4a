"""Why a flag has its value: the engine's default, the platform, the profile's layers, or the plan itself."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sgdeploy.engine.catalogue import ENGINE, ROUTER, Program
from sgdeploy.plan.argv import split
from sgdeploy.plan.explain.said import Explanation, Said, as_json, causes, grouped, ranked, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sgdeploy.engine.catalogue import Catalogue
    from sgdeploy.plan.explain.inquiry import Inquiry
    from sgdeploy.plan.explain.units import Unit
    from sgdeploy.plan.flags import Layer
    from sgdeploy.plan.model import Process
    from sgdeploy.platforms.base import Launch, Platform

PROGRAMS: tuple[Program, ...] = (ENGINE, ROUTER)


def explain_flag(inquiry: Inquiry, word: str) -> Iterator[Explanation]:
    """Explain a flag of the engine, and that of the router of the same name; nothing where neither has it."""
    for program in PROGRAMS:
        unit = next((unit for unit in inquiry.units.values() if unit.catalogue.program is program), None)
        name = _canonical(unit.catalogue, word) if unit else None
        if unit is None or name is None:
            continue
        answers = grouped(
            (_said(inquiry, inquiry.units[process.unit], process.host, name), _value(process, name), process.label)
            for process in inquiry.processes
            if inquiry.units[process.unit].catalogue.program is program
        )
        if answers:
            about = unit.rules.owned.get(name, "")
            yield Explanation("flag", f"--{name}", about, answers, program=unit.catalogue.title)


def _canonical(catalogue: Catalogue, word: str) -> str | None:
    """Find the flag that is meant; only a word with dashes may be short for one, since keys and variables may too."""
    if word.startswith("-"):
        return catalogue.name_of(word)
    return catalogue.spellings.get(word.replace("_", "-"))


def _value(process: Process, name: str) -> Any:
    """Give what stands on the command line: words, true for a switch, None where it is not there."""
    if process.secret_config is not None and name in process.secret_config.values:
        return f"${{env:{process.secret_config.values[name].variable}}}"
    flags = split(process.argv)[1]
    if f"--no-{name}" in flags:
        return False
    words = flags.get(f"--{name}")
    return words and shlex.join(words) if words != () else True


def _said(inquiry: Inquiry, unit: Unit, host: str, name: str) -> tuple[Said, ...]:
    if name in unit.rules.owned:
        return inquiry.because(unit, host, unit.owned.get(name, ()))
    words = [word for layer in unit.layers if name in layer.values for word in _layer(inquiry, unit, layer, name)]
    default = unit.catalogue.flags[name].default
    if default is not None:
        words.insert(0, Said(unit.catalogue.title, as_json(default), note="its default"))
    return ranked(words) or (Said(unit.catalogue.title, note=f"not passed; the {unit.catalogue.program.name} decides"),)


def _layer(inquiry: Inquiry, unit: Unit, layer: Layer, name: str) -> list[Said]:
    if name in layer.keys:
        words = told(inquiry.places, layer.keys[name])
        taken_over = layer.source in inquiry.units
        return [replace(word, note=f"taken over from {layer.source}") for word in words] if taken_over else words
    value = as_json(layer.values[name])
    if name in layer.follows:
        path = layer.follows[name]
        (first, *_) = causes(inquiry.places, path, inquiry.default(path))
        return [Said(first.who, value, place=first.place, note=first.note)]
    if layer.source.startswith("platform "):
        found = inquiry.influences(unit, name, _probe(name))
        return [Said(layer.source, value, causes=found)]
    return [Said(layer.source, value)]


def _probe(name: str) -> Any:
    def ask(platform: Platform, launch: Launch) -> Any:
        return platform.flags(launch).get(name)

    return ask
