"""Tables that fit the terminal: what matters most stays whole, the rest is cut, then left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from sgdeploy.console.text import grid

_GAP = 2


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        title: its head.
        least: cells that it may be cut down to; None for a column that is shown whole.
        spare: where even that does not fit, the columns with the highest number are left out first; 0 never is.
    """

    title: str
    least: int | None = None
    spare: int = 0


def table(columns: Sequence[Column], rows: Iterable[Sequence[Text]], *, width: int | None) -> list[Text]:
    """Align rows below their titles, each line within ``width`` cells (None for no limit).

    Args:
        columns: what each cell of a row is.
        rows: cells, cleaned already.
        width: cells of the terminal.
    """
    body = [list(row) for row in rows]
    natural = [max([len(column.title), *(row[index].cell_len for row in body)]) for index, column in enumerate(columns)]
    widths = natural if width is None else _fit(columns, natural, width)
    kept = [index for index, cells in enumerate(widths) if cells]
    for row in body:
        for index in kept:
            row[index] = row[index].copy()
            row[index].truncate(widths[index], overflow="ellipsis")
    head = [Text(column.title, "dim") for column in columns]
    return grid([[row[index] for index in kept] for row in [head, *body]], width=width)


def _fit(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """Give the cells of each column, 0 for those that are left out."""
    least = [
        cells if column.least is None else min(cells, column.least)
        for column, cells in zip(columns, natural, strict=True)
    ]
    out: set[int] = set()
    for index in sorted(range(len(columns)), key=lambda index: -columns[index].spare):
        if columns[index].spare and _total(least, out) > width:
            out.add(index)
    widths = [0 if index in out else cells for index, cells in enumerate(least)]
    room = width - _total(widths, out)
    # What is left goes to the columns that were cut, the first ones first: they say more than those behind them.
    for index in range(len(columns)):
        more = min(max(room, 0), natural[index] - widths[index]) if index not in out else 0
        widths[index] += more
        room -= more
    return widths


def _total(widths: Sequence[int], out: set[int]) -> int:
    shown = [cells for index, cells in enumerate(widths) if index not in out]
    return sum(shown) + _GAP * (len(shown) - 1)
