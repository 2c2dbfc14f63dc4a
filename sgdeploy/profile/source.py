"""Reading a text file so that any spot in it can be named: bytes → lines, with a clear problem for what is no text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.problems import Place, Problem
from sgdeploy.profile.suggest import did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 8 * 1024 * 1024
"""A profile or inventory is written by people; anything longer is a wrong file."""

_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""What YAML 1.1 parsers count as the end of a line (their marks count the same way)."""


@dataclass(frozen=True)
class Source:
    """A text, and how its lines map to places.

    Attributes:
        name: shown before the line number: a file as the user gave it, or ``--set``.
        text: what is parsed.
        lines: the lines shown in problems.
        folder: absolute folder that relative paths in it count from.
        first_line: number of the first line, from 1.
        indent: characters before ``text`` in its first line (the key of a ``--set``).
    """

    name: str
    text: str
    lines: tuple[str, ...]
    folder: Path
    first_line: int = 1
    indent: int = 0

    def place(self, line: int, column: int, width: int = 1) -> Place:
        """Name a spot given by line and column counted from 0, as parsers do."""
        shown = self.lines[line] if line < len(self.lines) else ""
        column += self.indent if line == 0 else 0
        return Place(self.name, self.first_line + line, column + 1, shown, max(1, width))

    def place_at(self, offset: int, width: int = 1) -> Place:
        """Name the spot at a character offset of the text."""
        before = _LINE_END.split(self.text[:offset])
        return self.place(len(before) - 1, len(before[-1]), width)


def split_lines(text: str) -> tuple[str, ...]:
    """Cut a text into lines the way YAML counts them."""
    return tuple(_LINE_END.split(text))


def read(path: Path, name: str, folder: Path, asked: Place | None = None) -> Source | Problem:
    """Read a whole file.

    Args:
        path: the file.
        name: how problems call it.
        folder: absolute folder of the file.
        asked: where the file was named (an ``extends`` or ``inventory`` value); None for the command line.

    Returns:
        The text, or the one problem that kept it from being read: at ``asked``, or in the file, for bad bytes at a
        line of it.
    """
    where = asked or Place(name, 0, 0)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        beside = "a path counts from the folder of the file that names it" if asked else None
        return Problem(f"there is no file {name}", _near(path) or beside, place=where, code="file-missing")
    except IsADirectoryError:
        hint = "name a file inside it"
        return Problem(f"{name} is a folder, not a file", hint, place=where, code="file-unreadable")
    except OSError as error:
        reason = error.strerror or str(error)
        return Problem(f"cannot read {name}: {reason}", place=where, code="file-unreadable")
    except ValueError:
        return Problem("a file name cannot hold a NUL character", place=where, code="file-missing")
    if len(data) > MAX_BYTES:
        text = f"{name} is longer than {MAX_BYTES // 1024 // 1024} MiB; this is no profile, inventory or list of hosts"
        return Problem(text, place=where, code="file-unreadable")
    return _decode(data, name, folder)


def _decode(data: bytes, name: str, folder: Path) -> Source | Problem:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        lines = split_lines(data.decode("utf-8", "replace"))
        at = Source(name, before, lines, folder).place_at(len(before))
        wide = data[:2] in {b"\xff\xfe", b"\xfe\xff"}
        if b"\0" in data and not wide:  # its bytes on a terminal would help nobody
            message = f"{name} is no text: it holds NUL bytes, as programs, archives and weights do"
            hint = "name a profile, an inventory or a list of hosts"
            return Problem(message, hint, place=Place(name, 1, 1), code="file-encoding")
        message = f"not UTF-8 text: byte 0x{data[error.start]:02x}" + (" (this looks like UTF-16)" if wide else "")
        hint = f"convert it, for example: iconv -f {'UTF-16' if wide else 'GB18030'} -t UTF-8 {name}"
        return Problem(message, hint, place=at, code="file-encoding")
    return Source(name, text, split_lines(text), folder)


def _near(path: Path) -> str | None:
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder} either"
    try:
        names = [entry.name for entry in folder.iterdir() if entry.is_file()]
    except OSError:
        return None
    guess = did_you_mean(path.name, names)
    return f"did you mean {guess}?" if guess else None
