"""Problems as a compiler shows them: place, message, source line, caret, hint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from sgdeploy.console.text import clean
from sgdeploy.problems import Place, Problem
from sgdeploy.words import plural

_TAB = 8
_WINDOW = 160  # characters of a source line that are shown; a longer line would wrap and part the caret from its word
_STYLE = {"error": "bold red", "warning": "bold yellow"}


def problem_lines(problem: Problem) -> list[Text]:
    """Show one problem: ``file:line:col: error: message``, the source line, the caret, the hint."""
    place = f"{clean(str(problem.place))}: " if problem.place else ""
    style = _STYLE[problem.level]
    lines = [Text.assemble((place, "bold"), (f"{problem.level}: ", style), clean(problem.message))]
    if problem.place is not None and problem.place.text.strip():
        lines += [Text(f"  {part}", style) if mark else Text(f"  {part}") for part, mark in _source(problem.place)]
    if problem.hint:
        lines.append(Text.assemble("  ", ("hint: ", "cyan"), clean(problem.hint)))
    return lines


def _source(place: Place) -> Iterable[tuple[str, bool]]:
    """Give the source line and the caret line below it, aligned in terminal cells whatever the line holds."""
    skipped = max(0, place.column - 1 - _WINDOW // 2) if len(place.text) > _WINDOW else 0
    text = place.text[skipped : skipped + _WINDOW]
    shown, starts = _layout(text)
    first = min(place.column - 1 - skipped, len(text))
    last = min(first + max(place.width, 1), len(text))
    begin = starts[first]
    marks = max(starts[last] - begin, 1)
    yield shown.rstrip(), False
    yield " " * begin + "^" * marks, True


def _layout(text: str) -> tuple[str, list[int]]:
    """Expand a source line for display; the list says in which cell each of its characters starts (and the end)."""
    shown, starts, cell = "", [], 0
    for character in text:
        starts.append(cell)
        piece = " " * (_TAB - cell % _TAB) if character == "\t" else clean(character)
        shown += piece
        cell += cell_len(piece)
    return shown, [*starts, cell]


def summary(problems: Iterable[Problem]) -> str:
    """Count: ``2 errors, 1 warning``; "" for none."""
    levels = [problem.level for problem in problems]
    counts = [(levels.count(level), level) for level in ("error", "warning")]
    return ", ".join(plural(count, level) for count, level in counts if count)


def problem_json(problem: Problem) -> dict[str, Any]:
    """Give a problem as plain JSON values; place fields are null where unknown."""
    place = problem.place
    return {
        "level": problem.level,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
        "path": list(problem.path),
        "file": place.file if place else None,
        "line": (place.line or None) if place else None,
        "column": (place.column or None) if place else None,
    }
