"""Why a variable has its value: the platform, the host, the profile's layers, or sgdeploy itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgdeploy.plan.compare import shown
from sgdeploy.plan.environment import SEARCH_PATHS, TITLES
from sgdeploy.plan.explain.said import Cause, Explanation, Said, grouped, ranked, told
from sgdeploy.platforms.base import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sgdeploy.plan.explain.inquiry import Inquiry
    from sgdeploy.plan.explain.units import Unit
    from sgdeploy.plan.model import Process
    from sgdeploy.platforms.base import Launch, Platform
    from sgdeploy.profile.inventory import Host

_DETAILS = ("nic", "address", "name")
"""Details of a host that platforms put into variables."""


def explain_variable(inquiry: Inquiry, name: str) -> Iterator[Explanation]:
    """Explain an environment variable; nothing where no process has it and nobody took it away."""
    answers = grouped(
        (_said(inquiry, process, name), _value(process, name), process.label) for process in inquiry.processes
    )
    if answers:
        about = "put before what a node has, never in place of it" if name in SEARCH_PATHS else ""
        yield Explanation("variable", name, about, answers)


def _value(process: Process, name: str) -> Any:
    if name in process.env:
        return shown(process.env[name])
    return ":".join(process.env_prepend[name]) if name in process.env_prepend else None


def _said(inquiry: Inquiry, process: Process, name: str) -> tuple[Said, ...]:
    unit = inquiry.units[process.unit]
    if name == TITLES:
        return (Said("sgdeploy", "1", note="without it the engine's processes cannot be told from others"),)
    base = list(_platform(inquiry, unit, inquiry.hosts[process.host], name))
    own = [word for path, mapping in unit.env.layers if name in mapping for word in told(inquiry.places, (*path, name))]
    if name in SEARCH_PATHS and own and own[-1].value is not None and name in unit.env.search:
        return (*ranked(own), *base)  # both hold: the profile's entries stand before the platform's
    return ranked([*base, *own])


def _platform(inquiry: Inquiry, unit: Unit, host: Host, name: str) -> Iterator[Said]:
    who = f"platform {inquiry.platform.kind}"
    if name in unit.env.base:
        yield Said(who, unit.env.base[name], causes=inquiry.influences(unit, name, _variable(name)))
    elif name in unit.env.search:
        yield Said(who, ":".join(unit.env.search[name]), causes=inquiry.influences(unit, name, _search(name)))
    given = inquiry.platform.host_env(host)
    if name in given:
        details = [detail for detail in _DETAILS if getattr(host, detail) == given[name]]
        words = inquiry.detail(host.name, details[0]) if details else ()
        yield Said(who, given[name], causes=tuple(Cause(word.who, word.place) for word in words[:1]))


def _variable(name: str) -> Any:
    def ask(platform: Platform, launch: Launch) -> Any:
        sizes = platform.size_env(launch) if isinstance(launch, Shape) else {}
        return {**platform.env(launch), **sizes}.get(name)

    return ask


def _search(name: str) -> Any:
    def ask(platform: Platform, launch: Launch) -> Any:
        return platform.env_prepend(launch).get(name)

    return ask
