"""Problems as values: what is wrong, where it stands, and what to do next.

Every room of the pure middle *returns* problems; nobody raises at the first one, so that an operator
sees all of them in one run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

KeyPath: TypeAlias = "tuple[str | int, ...]"
"""The keys from the top of a profile down to a value: ``("prefill", "short", "hosts", 2)``."""

Level: TypeAlias = Literal["error", "warning"]

COMMAND_LINE = "--set"
"""What stands in a place instead of a file for the command line; its lines are its ``--set``, counted from 1."""


@dataclass(frozen=True)
class Place:
    """A spot in a file, as a compiler would name it.

    Attributes:
        file: the path as the user gave it (relative paths stay relative), or ``COMMAND_LINE``.
        line: counted from 1; 0 for the file as a whole, which could not be read.
        column: counted from 1, in characters.
        text: the whole source line without its end, for the caret display ("" when unknown).
        width: how many characters the caret underlines, at least 1.
    """

    file: str
    line: int
    column: int
    text: str = ""
    width: int = 1

    def __str__(self) -> str:
        """Give ``file:line:col``, or the file alone."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong (``error``) or doubtful (``warning``) in the input.

    Attributes:
        message: one sentence with the numbers in it, no trailing full stop.
        hint: the next step, a sentence or a command; None where the message says all.
        path: the key in the *merged* profile that it is about; () for the whole file.
        at: whether the caret belongs under the key or under its value.
        span: offset and width, in characters, of the part of a text value that it is about; None for all of it.
        place: filled in by ``Places.place`` once the path has been looked up, or at once by the reader.
        level: an error stops everything before a host is touched; a warning is shown and goes on.
        code: a short stable name for machines, such as ``flag-unknown``.
    """

    message: str
    hint: str | None = None
    path: KeyPath = ()
    at: Literal["key", "value"] = "value"
    place: Place | None = None
    level: Level = "error"
    code: str = ""
    span: tuple[int, int] | None = None

    def at_place(self, place: Place | None) -> Problem:
        """Return the same problem with its place filled in."""
        return replace(self, place=place)
