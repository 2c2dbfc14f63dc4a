"""How the help writes options: in an operator's words, without the types and brackets of the library behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

_TYPE = re.compile(r"(?<=[A-Z\].]) <[^>]+>$")
"""The type behind a name in capitals, which says what it is already."""
_RANGE = re.compile(r"<(?:int|float) range>$")
_LEAST = re.compile(r"x>=(\d+)(?=\]$)")
_DEFAULT = re.compile(r"\[default: \((.*)\)(?=(?:; [^()]*)?\]$)", re.DOTALL)


def plainly(name: str, text: str) -> tuple[str, str]:
    """Write one row of the help: the option or argument with what it takes, and what it is for."""
    name = _RANGE.sub("N", _TYPE.sub("", name))
    return name, _LEAST.sub(
        r"at least \1", _DEFAULT.sub(r"[default: \1", text).replace("[default: required", "[required")
    )


class _Plainly:
    """A formatter whose tables are written plainly."""

    def __init__(self, formatter: Any) -> None:
        self._formatter = formatter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._formatter, name)

    def write_dl(self, rows: Sequence[tuple[str, str]], *words: Any, **more: Any) -> None:
        """Write a table of names and texts."""
        self._formatter.write_dl([plainly(*row) for row in rows], *words, **more)


class HelpedCommand(TyperCommand):
    """A command with such a help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options."""
        plain: Any = _Plainly(formatter)
        super().format_options(ctx, plain)


class HelpedGroup(TyperGroup):
    """A command with others below it, and such a help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options, then the commands."""
        plain: Any = _Plainly(formatter)
        super().format_options(ctx, plain)
