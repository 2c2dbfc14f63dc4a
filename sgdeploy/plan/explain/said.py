"""The answer to "why is this so", as values: who said what where, and which word holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from sgdeploy.profile.messages import dotted
from sgdeploy.profile.scalars import Secret

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath, Place
    from sgdeploy.profile.places import Places


@dataclass(frozen=True)
class Cause:
    """A key of the profile that a value follows from; without a place it is not set, and its default counts."""

    key: str
    place: Place | None


@dataclass(frozen=True)
class Said:
    """One word about a value.

    Attributes:
        who: a dotted key of the profile or the inventory, ``platform cpu``, ``sgdeploy``, ``engine 0.5.23``.
        value: what it said, plain JSON; None where it said that there be none, or says nothing.
        standing: whether it holds, was overridden by another, or is a key that the value was computed from.
        place: where it stands, None where that is in no file.
        note: what else there is to say, "" for nothing.
        causes: keys that a platform's word follows from.
    """

    who: str
    value: Any = None
    standing: Literal["holds", "overridden", "cause"] = "holds"
    place: Place | None = None
    note: str = ""
    causes: tuple[Cause, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values; a place as file, line and column, null where there is none."""
        causes = [{"key": cause.key, **_place(cause.place)} for cause in self.causes]
        body = {"who": self.who, "standing": self.standing, "value": self.value, "note": self.note}
        return {**body, **_place(self.place), "causes": causes}


@dataclass(frozen=True)
class Answer:
    """One reason, and the values that follow from it.

    Attributes:
        values: each value (None for none at all) with the labels of the processes that have it; no labels for a key.
        said: what led to it: what holds first, then what that overrode, nearest first.
    """

    values: tuple[tuple[Any, tuple[str, ...]], ...]
    said: tuple[Said, ...]

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        values = [{"value": value, "processes": list(labels)} for value, labels in self.values]
        return {"values": values, "said": [said.to_json() for said in self.said]}


@dataclass(frozen=True)
class Explanation:
    """What a word means in a plan, and where its values come from.

    Attributes:
        kind: what it is.
        name: its canonical name.
        about: a sentence on what it is for or what to set instead, "" for none.
        answers: one for each reason, in plan order.
        program: whose flag it is, "" for what is none.
    """

    kind: Literal["flag", "variable", "key", "field"]
    name: str
    about: str
    answers: tuple[Answer, ...]
    program: str = ""

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        answers = [answer.to_json() for answer in self.answers]
        head = {"kind": self.kind, "name": self.name, "program": self.program, "about": self.about}
        return {**head, "answers": answers}


def told(places: Places, path: KeyPath) -> list[Said]:
    """Give everything that set a key, lowest layer first; nothing where nobody did."""
    return [Said(dotted(path), as_json(origin.value), place=origin.place) for origin in places.origins(path)]


def ranked(words: Sequence[Said]) -> tuple[Said, ...]:
    """Let the last of some words hold and override the others; it comes first."""
    lower = [replace(word, standing="overridden") for word in words[:-1]]
    return (*words[-1:], *reversed(lower))


def causes(places: Places, path: KeyPath, default: str) -> tuple[Said, ...]:
    """Give a key that something follows from, with what it overrode; its default in words where it is not set."""
    words = ranked(told(places, path))
    if not words:
        return (Said(dotted(path), standing="cause", note=f"not set; {default}" if default else "not set"),)
    return (replace(words[0], standing="cause"), *words[1:])


def grouped(found: Iterable[tuple[tuple[Said, ...], Any, str]]) -> tuple[Answer, ...]:
    """Put processes together that have their value for the same reason.

    Args:
        found: for each process: what led to its value, the value, its label.
    """
    answers: dict[str, tuple[tuple[Said, ...], dict[str, tuple[Any, list[str]]]]] = {}
    for said, value, label in found:
        _, values = answers.setdefault(repr(said), (said, {}))
        values.setdefault(json.dumps(value, sort_keys=True), (value, []))[1].append(label)
    return tuple(
        Answer(tuple((value, tuple(labels)) for value, labels in values.values()), said)
        for said, values in answers.values()
        if said
    )


def as_json(value: Any) -> Any:
    """Make plain JSON of a value of a profile; a secret stays its reference."""
    if isinstance(value, Secret):
        return str(value)
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def _place(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {"file": None, "line": None, "column": None}
    return {"file": place.file, "line": place.line, "column": place.column}
