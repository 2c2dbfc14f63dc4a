"""Scalar types of a profile: durations, ports, names, secrets."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Secret:
    """``${env:NAME}``: a value that is named here and read only by the thin edges, at the last moment.

    Attributes:
        name: the controller's environment variable.
    """

    name: str

    def __str__(self) -> str:
        """Give the reference as it is written in a profile; the value is not known here."""
        return f"${{env:{self.name}}}"


def refusal(text: str, hint: str | None = None, *, shows: bool = True) -> PydanticCustomError:
    """Make a validator's error.

    Args:
        text: goes on after the key (``must be …``).
        hint: the next step.
        shows: whether the value that was found is told after the text.
    """
    return PydanticCustomError("refused", "{text}", {"text": text, "hint": hint, "shows": shows})


_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhms])")
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[dhms]))+")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


def parse_duration(value: object) -> float:
    """Turn ``45m``, ``10s``, ``1h30m`` or a number of seconds into seconds.

    Raises:
        ValueError: it is none of these, or not above zero; the message goes on after the name of the value.
    """
    seconds: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        text = value.strip()
        if _DURATION.fullmatch(text):
            seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
        elif _NUMBER.fullmatch(text):
            seconds = float(text)
    if seconds is None or not math.isfinite(seconds):
        raise ValueError("must be a duration such as 45m, 1h30m or a number of seconds")
    if seconds <= 0:
        raise ValueError("must be longer than zero")
    return seconds


def _duration(value: Any) -> float:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise refusal(str(error), "units are d, h, m, s and ms, as in 1h30m") from None


Duration = Annotated[
    float,
    PlainValidator(_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|[dhms]))+$"},
            ]
        }
    ),
]
"""Seconds, above zero; written as ``45m``, ``1h30m`` or a number of seconds."""

Port = Annotated[int, Field(ge=1, le=65535)]
"""A TCP port."""

_CORE_RANGE = re.compile(r"\s*(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*", re.ASCII)


def _cores(value: Any) -> tuple[int, ...]:
    if value == "any":
        return ()
    items = [value] if isinstance(value, (int, str)) else value
    if isinstance(value, bool) or not isinstance(items, (list, tuple)) or not items:
        raise refusal("must be cores such as 0-15,32 or a list of numbers, or any for no pinning")
    cores: list[int] = []
    for item in items:
        parts = [str(item)] if isinstance(item, int) and not isinstance(item, bool) else str(item).split(",")
        for match in map(_CORE_RANGE.fullmatch, parts):
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if first > last:
                raise refusal("must be cores such as 0-15,32 or a list of numbers, or any for no pinning")
            cores += range(first, last + 1)
    return tuple(sorted(set(cores)))


Cores = Annotated[
    tuple[int, ...],
    PlainValidator(_cores),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^(any|[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)$"},
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
            ]
        }
    ),
]
"""Cores or memory nodes, ascending: written as a number, as ``0-15,32`` or as a list; ``any`` is the empty one."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
"""Name of a deployment, an instance or a group: it becomes part of process ids, folders and file names."""

EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""Name of an environment variable that a shell can export."""


def flag_value(value: Any) -> Any:
    """Let through what a flag can hold: a scalar, a secret, or a list or mapping that becomes JSON.

    Raises:
        PydanticCustomError: a number that JSON and the engine cannot read (infinite, not a number).
    """
    if isinstance(value, (list, tuple, dict)) and not all(_finite(item) for item in _leaves(value)):
        raise refusal("holds a number that is not finite", shows=False)
    if not _finite(value):
        raise refusal("must be a finite number")
    if value is None or isinstance(value, (bool, int, float, str, Secret, list, tuple, dict)):
        return value
    raise refusal("must be text, a number, true, false, null, a list or a mapping")


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def env_setting(value: Any) -> Any:
    """Let through what an environment variable can hold: a scalar, a secret, or null to take it away.

    Raises:
        PydanticCustomError: a list or a mapping, or a number that is not finite.
    """
    if isinstance(value, (list, tuple, dict)):
        raise refusal("must be a single value", "write a list as one text, as the engine expects it")
    return flag_value(value)


def version_one(what: str) -> BeforeValidator:
    """Make the check of a file's ``version``: the whole number 1 and nothing that merely equals it."""

    def check(value: Any) -> Any:
        if type(value) is int and value > 1:
            raise refusal(
                f"must be 1, the only {what} version that this sgdeploy reads", "a newer sgdeploy may read it"
            )
        if type(value) is not int or value != 1:
            raise refusal("must be 1", "write version: 1")
        return value

    return BeforeValidator(check)
