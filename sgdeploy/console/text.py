"""Small things about text that every view needs: foreign text made harmless, widths, numbers in words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC and other strings: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"  # two-character escapes: reset, charset
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI as one C1 character
)
_GAP = "  "
_LAST_OF_BYTE = 0xFF
_MINUTE = 60
_EXACT = 10  # below so many seconds, tenths are shown


def clean(text: str) -> str:
    r"""Make text from files, logs and hosts safe to show on one line of a terminal.

    Escape sequences are dropped; tabs become one space; any other control character, line separator, direction
    override or half surrogate is shown as ``\x07`` or ``\u202e``, so that it can be seen but does nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCES.sub("", text)
    return "".join(character if _harmless(character) else _shown(character) for character in text)


def _harmless(character: str) -> bool:
    # Cc control, Cf format (direction marks, zero width), Cs surrogate, Zl and Zp line and paragraph separators.
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _shown(character: str) -> str:
    if character == "\t":
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code <= _LAST_OF_BYTE else f"\\u{code:04x}"


_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\s\]]*\s*([^\]]*)\]\s*")


def untimed(line: str) -> str:
    """Give a log line without its date and time, for tables: ``[2026-11-29 16:31:37 TP0] Load`` → ``TP0 Load``."""
    stamp = _STAMP.match(line)
    return line if stamp is None else f"{stamp[1]} {line[stamp.end() :]}".lstrip()


def unstamped(line: str) -> str:
    """Give a log line without date, time and rank: what ranks that fail alike have in common."""
    return _STAMP.sub("", line, count=1)


def below(process: str, host: str) -> str:
    """Give what a process id says besides its host, for tables that have a column of hosts: ``native/r07``."""
    return "/".join(part for part in process.split("/")[1:] if part != host) or process


def cut(text: str, width: int) -> str:
    """Shorten cleaned text to ``width`` terminal cells, with an ellipsis where something is missing."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 1, 0)).rstrip() + "…" if width > 0 else ""


def grid(rows: Iterable[Sequence[str | Text]], *, width: int | None = None, indent: int = 0) -> list[Text]:
    """Align rows into columns two spaces apart; the last column is ragged and cut where a width is given.

    Args:
        rows: cells, cleaned already; each row has the same number of them.
        width: cells of the terminal, or None to leave the last column whole.
        indent: spaces before each row.
    """
    table = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    if not table:
        return []
    widths = [max(row[column].cell_len for row in table) for column in range(len(table[0]))]
    return [_line(row, widths, width, indent) for row in table]


def _line(row: Sequence[Text], widths: Sequence[int], width: int | None, indent: int) -> Text:
    line = Text(" " * indent)
    for cell, cells in zip(row, widths, strict=True):
        line.append_text(cell)
        line.append(" " * (cells - cell.cell_len) + _GAP)
    line.rstrip()
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    return line


def duration(seconds: float) -> str:
    """``0.8 s`` below ten, ``35 s`` below two minutes, ``3m05s`` and ``1h02m`` above."""
    if seconds < _EXACT:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    if minutes <= 1:
        return f"{round(seconds)} s"
    if minutes < _MINUTE:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // _MINUTE}h{minutes % _MINUTE:02d}m"
