"""One flag of a program's command line, and whether a profile's value fits it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sgdeploy.problems import KeyPath, Problem
from sgdeploy.profile.messages import got
from sgdeploy.profile.scalars import Secret
from sgdeploy.profile.suggest import did_you_mean

Kind: TypeAlias = Literal[
    "text", "whole", "number", "share", "size", "switch", "on-off", "json", "json-list", "json-text"
]
"""What a flag takes.

``share`` is a number that is part of a whole, such as the memory; ``size`` is a whole number or one with a unit
(``4k``); ``switch`` is there or not; ``on-off`` has a ``--no-`` form; ``json`` and ``json-list`` are written as YAML;
``json-text`` takes YAML or any text (a file name, often).
"""

_SIZE = re.compile(r"\d+[KMGT]?|\d+(\.\d+)?[kmgt]")
_SHOWN_CHOICES = 8
_PERCENT = 100
_TAKES: dict[Kind, str] = {
    "text": "a text",
    "whole": "a whole number",
    "number": "a number",
    "share": "a number above 0 and at most 1",
    "size": "a whole number or one with a unit (4k = 4000, 4K = 4096)",
    "switch": "true or false",
    "on-off": "true or false",
    "json": "a mapping or a list",
    "json-list": "a list",
    "json-text": "a mapping or a text",
}


@dataclass(frozen=True)
class FlagSpec:
    """One flag as the program's parser knows it.

    Attributes:
        name: its canonical long name without the dashes in front.
        aliases: other long names of the same flag.
        kind: what its value is.
        nargs: ``+`` one or more values, ``*`` any number, ``?`` one or none, None exactly one.
        choices: the only values allowed; empty for any.
        default: what the program takes when the flag is absent; None where it decides later.
    """

    name: str
    aliases: tuple[str, ...] = ()
    kind: Kind = "text"
    nargs: Literal["+", "*", "?"] | None = None
    choices: tuple[str | int, ...] = ()
    default: Any = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every long name that the parser takes for it, ``no-…`` forms included."""
        names = (self.name, *self.aliases)
        return (*names, *(f"no-{name}" for name in names)) if self.kind == "on-off" else names


def check_value(spec: FlagSpec, value: object, path: KeyPath) -> list[Problem]:
    """Say what is wrong with ``value`` (not None) for this flag; nothing when it fits."""
    if isinstance(value, list) and spec.nargs in {"+", "*"}:
        if not value and spec.nargs == "+":
            return [_wrong(spec, "takes at least one value, got an empty list", path)]
        return [p for index, item in enumerate(value) for p in _check_one(spec, item, (*path, index), listed=True)]
    if spec.nargs == "?" and isinstance(value, bool):
        return []
    return _check_one(spec, value, path, listed=False)


def _check_one(spec: FlagSpec, value: object, path: KeyPath, *, listed: bool) -> list[Problem]:
    if isinstance(value, Secret):
        return _check_secret(spec, path, listed=listed)
    if not _fits(spec.kind, value):
        return [_wrong(spec, f"takes {_takes(spec)}, got {got(value)}", path, _type_hint(spec, value))]
    if isinstance(value, dict | list) and _not_plain(value):
        text = "holds a value that JSON cannot carry; secrets go into text flags, as the whole value"
        return [_wrong(spec, text, path)]
    if spec.choices and value not in spec.choices:
        return [_wrong(spec, f"does not know {got(value)}", path, _choice_hint(spec, value), "flag-choice")]
    if listed and isinstance(value, str) and value.startswith("-"):
        return [_wrong(spec, f'cannot pass "{value}" in a list: the program would read it as a flag', path)]
    return []


def _check_secret(spec: FlagSpec, path: KeyPath, *, listed: bool) -> list[Problem]:
    if spec.kind == "text" and not listed and spec.nargs is None and not spec.choices:
        return []
    return [_wrong(spec, f"takes {_takes(spec)} and cannot hold a secret", path, None, "flag-secret")]


def _fits(kind: Kind, value: object) -> bool:
    if isinstance(value, bool):
        return kind in {"switch", "on-off"}
    if isinstance(value, int | float):
        return _fits_number(kind, value)
    if isinstance(value, str):
        return kind in {"text", "json-text"} or (kind == "size" and _SIZE.fullmatch(value) is not None)
    if isinstance(value, list):
        return kind in {"json", "json-list", "json-text"}
    return isinstance(value, dict) and kind in {"json", "json-text"}


def _fits_number(kind: Kind, value: float) -> bool:
    if kind == "share":
        return 0 < value <= 1
    if isinstance(value, int):
        return kind in {"whole", "number", "size"}
    return kind == "number" and math.isfinite(value)


def _not_plain(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return True
    return False


def _takes(spec: FlagSpec) -> str:
    one = _TAKES[spec.kind]
    return f"a list, each {one}" if spec.nargs in {"+", "*"} else one


def _type_hint(spec: FlagSpec, value: object) -> str | None:
    if spec.kind == "share" and isinstance(value, int | float) and 1 < value <= _PERCENT:
        return f"for {value} percent write {value / _PERCENT:g}"
    if spec.kind in {"whole", "number", "share", "size"} and isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return None
        return "remove the quotes"
    if spec.kind in {"text", "json-text"} and isinstance(value, bool | int | float):
        return "put the value in quotes"
    return None


def _choice_hint(spec: FlagSpec, value: object) -> str:
    words = [str(choice) for choice in spec.choices]
    near = did_you_mean(str(value), words)
    if near is not None:
        return f"did you mean `{near}`?"
    shown = ", ".join(words[:_SHOWN_CHOICES])
    more = len(words) - _SHOWN_CHOICES
    return f"one of: {shown}" + (f" and {more} more" if more > 0 else "")


def _wrong(spec: FlagSpec, text: str, path: KeyPath, hint: str | None = None, code: str = "flag-type") -> Problem:
    return Problem(f"`{spec.name}` {text}", hint, path, code=code)
