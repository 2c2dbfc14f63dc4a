"""Diagnosis rules: what log lines mean, as data. The wording stands in ``data/diagnosis.yaml``, with its sources.

Rules know lines; what only several logs together can tell is found in sgdeploy/diagnose/, in the words of this data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Annotated, Literal, TypeAlias

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Level: TypeAlias = Literal["cause", "lead", "vague", "symptom", "note"]
Scope: TypeAlias = Literal["engine", "router", "kernel", "any"]
Moment: TypeAlias = Literal["start", "rendezvous", "weights", "kv-cache", "graphs", "serving", "prefill", "decode"]

LEVELS: tuple[Level, ...] = ("cause", "lead", "vague", "symptom", "note")
"""What beats what, the strongest first."""

REMEMBERED = 20_000
"""So many different lines are remembered; a few megabytes."""

SEARCHED = 2 * 1024
"""So many characters of a line are searched; what an error says stands at its begin, command lines follow."""


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


Pattern: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_compiles)]
Id: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Text(_Data):
    """What replaces the texts of a rule in a certain moment; None keeps the rule's own."""

    cause: str | None = None
    next: str | None = None


class Sentence(_Data):
    """What the operator is told; the base of rules, and all there is of what is found without a pattern.

    Attributes:
        id: stable short name.
        level: how much it explains.
        cause: a sentence; ``{value}`` is filled in.
        next: what to do.
        source: where it is known from.
    """

    id: Id
    level: Level
    cause: str
    next: str
    source: str


class Rule(Sentence):
    """What a log line means.

    Attributes:
        scope: in whose log it counts.
        phase: ``start``: void once the process has come up after it.
        patterns: searched within one line; named groups are values.
        near: must be found in one of the lines above.
        at: other texts for certain moments.
        collect: values of which all that were seen are told, not the first alone.
        words: texts of values that were not found.
    """

    scope: Scope
    phase: Literal["start", "any"] = "start"
    patterns: Annotated[tuple[Pattern, ...], Field(min_length=1)]
    near: Pattern | None = None
    at: Mapping[Moment, Text] = Field(default_factory=dict)
    collect: tuple[str, ...] = ()
    words: Mapping[str, str] = Field(default_factory=dict)

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(pattern) for pattern in self.patterns)

    def values(self, line: str) -> dict[str, str] | None:
        """Search a line; the named groups that were found, or None where no pattern fits."""
        for pattern in self._patterns:
            if match := pattern.search(line):
                return {name: value.strip() for name, value in match.groupdict().items() if value}
        return None

    def has_near(self, above: Sequence[str]) -> bool:
        """Tell whether one of the lines above holds what must stand near."""
        return self.near is None or any(re.search(self.near, line) for line in above)


@dataclass(frozen=True)
class Taken:
    """A line and the rule that took it."""

    rule: Rule
    values: dict[str, str]


class Rules(_Data):
    """All rules, in the order in which they are asked.

    Attributes:
        dull: patterns of lines that are never searched.
        rules: what single lines say.
        reasoned: what is found by comparing.
    """

    version: Literal[1]
    dull: tuple[Pattern, ...]
    rules: tuple[Rule, ...]
    reasoned: tuple[Sentence, ...]

    @model_validator(mode="after")
    def _ids_differ(self) -> Rules:
        ids = [each.id for each in (*self.rules, *self.reasoned)]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"two rules share an id: {', '.join(twice)}")
        return self

    @cached_property
    def _dull(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?:{pattern})" for pattern in self.dull))

    def candidates(self, line: str, kind: Scope) -> list[Taken]:
        """Give the rules that fit a line, up to the first that asks for nothing above it; the first one takes it."""
        line = line[:SEARCHED]
        found: list[Taken] = []
        if not line or self._dull.search(line):
            return found
        for rule in self.rules:
            values = rule.values(line) if rule.scope in {"any", kind} else None
            if values is not None:
                found.append(Taken(rule, values))
                if rule.near is None:
                    break
        return found

    def sentence(self, name: str) -> Sentence:
        """Give what is said of something that was found by comparing.

        Raises:
            KeyError: there is none of that name.
        """
        return {each.id: each for each in self.reasoned}[name]


class Matcher:
    """Asks rules about many lines; 256 ranks write the same ones, and each is searched once."""

    def __init__(self, rules: Rules) -> None:
        """Begin with nothing known."""
        self._rules = rules
        self._known: dict[tuple[Scope, str], list[Taken]] = {}

    def take(self, line: str, kind: Scope, above: Sequence[str]) -> Taken | None:
        """Find the rule that a line belongs to: the first that fits, None where none does.

        Args:
            line: without colours and, so that others can be the same, without stamp.
            kind: whose log it stands in.
            above: the lines before it.
        """
        key = (kind, line[:SEARCHED])
        candidates = self._known.get(key)
        if candidates is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            candidates = self._known[key] = self._rules.candidates(line, kind)
        return next((each for each in candidates if each.rule.has_near(above)), None)


@cache
def diagnosis_rules() -> Rules:
    """Give all rules."""
    text = (files("sgdeploy.engine") / "data" / "diagnosis.yaml").read_text(encoding="utf-8")
    return Rules.model_validate(yaml.safe_load(text))
