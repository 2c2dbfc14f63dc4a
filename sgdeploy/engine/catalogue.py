"""The flags of one version of a program: what a profile may write, and how it becomes a command line.

Programs are the engine and the router in front of it. The data files hold facts read from their own parsers; the
Kunpeng files name their base and what the vendor's builds add, as captured command lines show it (nearest release: the
builds' own parsers have not been read).
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

ROUTER_VERSIONS = ("0.3.2", "kunpeng")
"""Router versions that have a catalogue; kunpeng is the vendor's build of sgl-model-gateway."""

_SHOWN_CANDIDATES = 6
_ABILITIES = ("rank_launch", "tokenizer_apart", "grouped_routing")


@dataclass(frozen=True)
class Program:
    """A program whose flags a profile may set.

    Attributes:
        name: as problems call it.
        files: beginning of the names of its data files.
        versions: those that have a catalogue.
        help: command that lists its flags on a node.
    """

    name: str
    files: str
    versions: tuple[str, ...]
    help: str


ENGINE = Program("engine", "flags", VERSIONS, "sglang.launch_server --help")
ROUTER = Program("router", "router", ROUTER_VERSIONS, "python -m sglang_router.launch_router --help")


@dataclass(frozen=True)
class Catalogue:
    """All flags of one version of a program.

    Attributes:
        program: whose flags they are.
        version: as a profile names it.
        flags: by canonical long name, in the parser's order.
        spellings: every long name, aliases and ``no-`` forms included → canonical name.
        abbreviations: short forms that the program's users write although they are no unique prefix.
        rank_launch: whether this engine can be started as one process per rank (``--tp-rank-in-node``).
        tokenizer_apart: whether this engine can run its HTTP server and tokenizer as a process apart from the ranks.
        grouped_routing: whether this router can part prefill instances by a fixed prompt length.
    """

    program: Program
    version: str
    flags: Mapping[str, FlagSpec]
    spellings: Mapping[str, str]
    abbreviations: Mapping[str, str]
    rank_launch: bool = False
    tokenizer_apart: bool = False
    grouped_routing: bool = False

    @property
    def title(self) -> str:
        """Program and version in words: ``engine 0.5.23``."""
        return f"{self.program.name} {self.version}"

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
        """Find the canonical name that ``raw`` stands for, as the program's parser would."""
        word = _plain(raw)
        exact = self.spellings.get(word) or self.abbreviations.get(word)
        if exact is not None:
            return exact, None
        owners = {name: None for spelling, name in self.spellings.items() if word and spelling.startswith(word)}
        if len(owners) == 1:
            return next(iter(owners)), None
        if owners:
            shown = ", ".join(list(owners)[:_SHOWN_CANDIDATES]) + (", …" if len(owners) > _SHOWN_CANDIDATES else "")
            message = f"`{raw}` is short for {len(owners)} flags of {self.title}"
            return "", Problem(message, f"write one of them in full: {shown}", at, "key", code="flag-ambiguous")
        near = did_you_mean(word, self.spellings)
        hint = f"did you mean `{near}`?" if near else f"`{self.program.help}` on a node lists its flags"
        return "", Problem(f"{self.title} has no flag `{raw}`", hint, at, "key", code="flag-unknown")


def catalogue(version: str, program: Program = ENGINE) -> Catalogue:
    """Read the catalogue of a version of a program.

    Raises:
        KeyError: no catalogue of that version (``program.versions`` lists them).
    """
    if version not in program.versions:
        raise KeyError(version)
    data = _read(version, program)
    specs = {spec.name: spec for spec in map(_spec, data["flags"])}
    if "base" in data:
        specs = {**catalogue(data["base"], program).flags, **specs}
    for name, extra in data.get("choices", {}).items():
        specs[name] = replace(specs[name], choices=(*specs[name].choices, *extra))
    spellings = {spelling: spec.name for spec in specs.values() for spelling in spec.spellings}
    abilities = {name: data.get(name, False) for name in _ABILITIES}
    return Catalogue(program, version, specs, spellings, data.get("abbreviations", {}), **abilities)


def _read(version: str, program: Program) -> dict[str, Any]:
    file = resources.files("sgdeploy.engine") / "data" / f"{program.files}-{version}.json"
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
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
    # The parsers take a word that begins with a dash for a flag, negative numbers excepted.
    if text.startswith("-") and not isinstance(value, int | float):
        return [f"{option}={text}"]
    return [option, text]


def _word(value: Any) -> str:
    if isinstance(value, Secret):
        raise TypeError(f"the secret ${{env:{value.name}}} cannot stand on a command line")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)
