"""The flags of one engine version: what a profile may write, and how it becomes a command line.

The data files hold facts read from the engine's own parser; the Kunpeng fork's file names its base and what the fork
adds (nearest release: the fork's own base is older, and its parser has not been read).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from sgdeploy.engine.flags import FlagSpec, check_value
from sgdeploy.problems import KeyPath, Problem
from sgdeploy.profile.scalars import Secret
from sgdeploy.profile.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sgdeploy.profile.schema import FlagValue

VERSIONS = ("0.5.23", "kunpeng")
"""Engine versions that have a catalogue."""

_SHOWN_CANDIDATES = 6


@dataclass(frozen=True)
class Catalogue:
    """All flags of one engine version.

    Attributes:
        version: as a profile names it.
        rank_launch: whether this engine can be started as one process per rank (``--tp-rank-in-node``).
        flags: by canonical long name, in the parser's order.
        spellings: every long name, aliases and ``no-`` forms included → canonical name.
        abbreviations: short forms that the engine's users write although they are no unique prefix.
    """

    version: str
    rank_launch: bool
    flags: Mapping[str, FlagSpec]
    spellings: Mapping[str, str]
    abbreviations: Mapping[str, str]

    def check(self, flags: Mapping[str, Any], path: KeyPath) -> tuple[dict[str, FlagValue], tuple[Problem, ...]]:
        """Normalise a ``flags`` mapping of a profile.

        Args:
            flags: names in any spelling (dashes or underscores, aliases, unique prefixes) → value; None removes.
            path: where the mapping stands in the profile.

        Returns:
            canonical long name → value for everything that is right, and a problem for each thing that is not.
        """
        values: dict[str, FlagValue] = {}
        written: dict[str, str] = {}
        problems: list[Problem] = []
        for raw, value in flags.items():
            at = (*path, raw)
            name, problem = self._find(str(raw), at)
            if problem is not None:
                problems.append(problem)
            elif name in written:
                problems.append(_twice(name, written[name], str(raw), at))
            else:
                written[name] = str(raw)
                wrong = [] if value is None else check_value(self.flags[name], value, at)
                problems.extend(wrong)
                if not wrong:
                    values[name] = _positive(self.flags[name], str(raw), value)
        return values, tuple(problems)

    def argv(self, flags: Mapping[str, FlagValue]) -> list[str]:
        """Write checked flags as words of a command line, in the order given.

        Raises:
            TypeError: a value is a secret; secrets never stand on a command line.
        """
        words: list[str] = []
        for name, value in flags.items():
            words.extend(_words(self.flags[name], value))
        return words

    def name_of(self, raw: str) -> str | None:
        """Give the canonical name that ``raw`` stands for, None where it is unknown or not unique."""
        return self._find(raw, ())[0] or None

    def _find(self, raw: str, at: KeyPath) -> tuple[str, Problem | None]:
        """Find the canonical name that ``raw`` stands for, as the engine's parser would."""
        word = _plain(raw)
        exact = self.spellings.get(word) or self.abbreviations.get(word)
        if exact is not None:
            return exact, None
        owners = {name: None for spelling, name in self.spellings.items() if word and spelling.startswith(word)}
        if len(owners) == 1:
            return next(iter(owners)), None
        if owners:
            shown = ", ".join(list(owners)[:_SHOWN_CANDIDATES]) + (", …" if len(owners) > _SHOWN_CANDIDATES else "")
            message = f"`{raw}` is short for {len(owners)} flags of engine {self.version}"
            return "", Problem(message, f"write one of them in full: {shown}", at, "key", code="flag-ambiguous")
        near = did_you_mean(word, self.spellings)
        hint = f"did you mean `{near}`?" if near else "`sglang.launch_server --help` on a node lists its flags"
        return "", Problem(f"engine {self.version} has no flag `{raw}`", hint, at, "key", code="flag-unknown")


def catalogue(version: str) -> Catalogue:
    """Read the catalogue of an engine version.

    Raises:
        KeyError: no catalogue of that version (``VERSIONS`` lists them).
    """
    if version not in VERSIONS:
        raise KeyError(version)
    data = _read(version)
    specs = {spec.name: spec for spec in map(_spec, data["flags"])}
    if "base" in data:
        specs = {**catalogue(data["base"]).flags, **specs}
    for name, extra in data.get("choices", {}).items():
        specs[name] = replace(specs[name], choices=(*specs[name].choices, *extra))
    spellings = {spelling: spec.name for spec in specs.values() for spelling in spec.spellings}
    return Catalogue(version, data["rank_launch"], specs, spellings, data.get("abbreviations", {}))


def _read(version: str) -> dict[str, Any]:
    text = (resources.files("sgdeploy.engine") / "data" / f"flags-{version}.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def _spec(entry: dict[str, Any]) -> FlagSpec:
    fields = dict(entry)
    for key in ("aliases", "choices"):
        fields[key] = tuple(fields.get(key, ()))
    return FlagSpec(**fields)


def _plain(name: str) -> str:
    return name.strip().lstrip("-").replace("_", "-")


def _positive(spec: FlagSpec, raw: str, value: Any) -> FlagValue:
    """Turn ``no-x: true`` into ``x: false``; anything else stays as it is."""
    negated = spec.kind == "on-off" and _plain(raw).startswith("no-")
    result: FlagValue = not value if negated and isinstance(value, bool) else value
    return result


def _twice(name: str, first: str, second: str, at: KeyPath) -> Problem:
    message = f"`{second}` and `{first}` are the same flag (`{name}`)"
    return Problem(message, f"keep one of the two, as `{name}`", at, "key", code="flag-twice")


def _words(spec: FlagSpec, value: FlagValue) -> list[str]:
    option = f"--{spec.name}"
    if value is None or (value is False and spec.kind != "on-off"):
        return []
    if isinstance(value, bool):
        return [option] if value else [f"--no-{spec.name}"]
    if isinstance(value, list) and spec.nargs in {"+", "*"}:
        return [option, *(_word(item) for item in value)]
    text = _word(value)
    # The engine's parser takes a word that begins with a dash for a flag, negative numbers excepted.
    if text.startswith("-") and not isinstance(value, int | float):
        return [f"{option}={text}"]
    return [option, text]


def _word(value: Any) -> str:
    if isinstance(value, Secret):
        raise TypeError(f"the secret ${{env:{value.name}}} cannot stand on a command line")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)
