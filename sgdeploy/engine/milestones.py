"""Milestones: the log lines by which a process shows how far it has come, as data of the engine's version.

The node helper searches a log for the patterns (``MilestoneSet.wire``); sgdeploy/health/ judges what was reached.
The wording stands in ``data/milestones.yaml``, with its sources.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache, cached_property
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Literal, TypeAlias

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

SYMPTOM = "symptom"
"""Name under which the node reports that one of the ``symptoms`` was seen; not a milestone."""

MilestoneState: TypeAlias = Literal["starting", "loading", "warming", "ready"]
Pattern: TypeAlias = Annotated[str, Field(min_length=1)]


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Line(_Data):
    """One log line worth knowing.

    Attributes:
        name: stable short name (``weights-begin``).
        pattern: regular expression, searched within one line.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    pattern: Pattern

    _compiles = field_validator("pattern")(_check_pattern)


class Milestone(_Line):
    """A line that shows how far a process has come.

    Attributes:
        phase: words for people, shown until the next milestone.
        state: what a process that has come this far, and no further, is doing.
    """

    phase: str
    state: MilestoneState


class Failure(_Line):
    """A line by which a process that lives says that it will not serve, whatever it prints afterwards.

    Attributes:
        reason: a sentence for people: what failed, and what to do next.
    """

    reason: str


class MilestoneSet(_Data):
    """The milestones of one kind of process, in the order in which they appear.

    Attributes:
        loaded: name of the milestone from which on the load phase counts as passed.
        ready: name of the process's own ready line, None where it never prints one.
        milestones: all of them.
        noise: patterns of lines that show no progress (answers to probes, attempts that failed again).
        symptoms: patterns of lines by which a process says that it lost another one.
        failures: lines after which its ready line is worth nothing.
        workers: pattern of the titles of its child processes without which it is of no use; None where it has none.
    """

    loaded: str
    ready: str | None
    milestones: Annotated[tuple[Milestone, ...], Field(min_length=1)]
    noise: tuple[Pattern, ...] = ()
    symptoms: tuple[Pattern, ...] = ()
    failures: tuple[Failure, ...] = ()
    workers: Annotated[Pattern, AfterValidator(_check_pattern)] | None = None

    _compiles = field_validator("noise", "symptoms")(lambda patterns: tuple(_check_pattern(p) for p in patterns))

    @model_validator(mode="after")
    def _names_fit(self) -> MilestoneSet:
        names = [each.name for each in self._lines]
        if len(set(names)) != len(names):
            raise ValueError("two milestones of a set share a name")
        for name in (self.loaded, self.ready):
            if name is not None and name not in self._order:
                raise ValueError(f"{name} is not a milestone of the set")
        return self

    @property
    def _lines(self) -> tuple[_Line, ...]:
        return (*self.milestones, *self.failures)

    @cached_property
    def _order(self) -> dict[str, int]:
        return {milestone.name: index for index, milestone in enumerate(self.milestones)}

    @cached_property
    def _noise(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(pattern) for pattern in self.noise)

    def wire(self) -> list[list[str]]:
        """Give ``[[name, pattern], …]`` as the node operation ``watch`` takes it, the symptoms as one."""
        rows = [[each.name, each.pattern] for each in self._lines]
        # The node searches for each row until it is found once; flags stand at the start of a pattern, so each is
        # wrapped into a group of its own.
        symptoms = "|".join(f"(?i:{pattern.replace('(?i)', '')})" for pattern in self.symptoms)
        return [*rows, [SYMPTOM, symptoms]] if symptoms else rows

    def furthest(self, reached: Collection[str]) -> Milestone | None:
        """Give the last milestone, by order and not by time, among those reached; unknown names do not count."""
        indices = [self._order[name] for name in reached if name in self._order]
        return self.milestones[max(indices)] if indices else None

    def load_passed(self, reached: Collection[str]) -> bool:
        """Tell whether the load phase is over: ``loaded`` or any later milestone except the ready line."""
        first = self._order[self.loaded]
        return any(self._order.get(name, -1) >= first for name in reached if name != self.ready or name == self.loaded)

    def ready_line(self, reached: Collection[str]) -> bool:
        """Tell whether the ready line was seen; true where the set has none."""
        return self.ready is None or self.ready in reached

    def failed(self, reached: Collection[str]) -> str:
        """Say why it will not serve, "" where its log says nothing of the kind."""
        return next((each.reason for each in self.failures if each.name in reached), "")

    def is_noise(self, line: str) -> bool:
        """Tell whether a log line shows no progress."""
        return any(pattern.search(line) for pattern in self._noise)


class _File(_Data):
    version: Literal[1]
    sets: dict[str, MilestoneSet]


@cache
def milestone_sets() -> Mapping[str, MilestoneSet]:
    """Give all sets by name: ``engine`` (serves), ``engine-follower`` (only loads), ``router``."""
    text = (files("sgdeploy.engine") / "data" / "milestones.yaml").read_text(encoding="utf-8")
    return MappingProxyType(_File.model_validate(yaml.safe_load(text)).sets)
