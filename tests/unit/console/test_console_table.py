"""A table on a narrow terminal: nothing wraps, what matters most stays, the rest is cut and then left out."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from sgdeploy.console.statuses import overview_lines, status_lines
from sgdeploy.console.table import Column, table
from tests.unit.console.test_console_data import STATUS

COLUMNS = (Column("NAME"), Column("WHY", least=6), Column("PORT", spare=1), Column("LINE", least=5, spare=2))
ROWS = [["n01", "exit code 3", "30000", "the last line"], ["n02", "", "30001", ""]]


def shown(width: int | None) -> str:
    lines = table(COLUMNS, [[Text(cell) for cell in row] for row in ROWS], width=width)
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (
            None,
            """\
            NAME  WHY          PORT   LINE
            n01   exit code 3  30000  the last line
            n02                30001
            """,
        ),
        (
            34,
            """\
            NAME  WHY          PORT   LINE
            n01   exit code 3  30000  the las…
            n02                30001
            """,
        ),
        (
            26,
            """\
            NAME  WHY     PORT   LINE
            n01   exit …  30000  the …
            n02           30001
            """,
        ),
        (
            25,
            """\
            NAME  WHY          PORT
            n01   exit code 3  30000
            n02                30001
            """,
        ),
        (
            14,
            """\
            NAME  WHY
            n01   exit co…
            n02
            """,
        ),
    ],
)
def test_what_matters_least_goes_first(width: int | None, text: str) -> None:
    assert shown(width) == dedent(text)


@given(st.lists(st.lists(st.text("ab …主", max_size=12), min_size=4, max_size=4), max_size=4), st.integers(1, 80))
def test_no_line_is_wider_than_the_terminal(rows: list[list[str]], width: int) -> None:
    lines = table(COLUMNS, [[Text(cell) for cell in row] for row in rows], width=width)
    assert len(lines) == len(rows) + 1
    assert all(line.cell_len <= width for line in lines)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_a_status_names_rank_and_state_on_any_terminal(width: int) -> None:
    lines = status_lines(STATUS, width=width)
    rows = [str(line) for line in lines[lines.index(Text()) + 1 :]]
    assert all(line.cell_len <= width for line in lines[lines.index(Text()) + 1 :])
    telling = [set(row.split()) >= {"n02", "native/r00", "failed", "exit"} for row in rows]
    assert telling == [False, False, True]
    assert all("degraded" in str(line) for line in overview_lines([STATUS], width=width)[1:])
