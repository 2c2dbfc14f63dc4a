"""Problems look as a compiler shows them, with the caret under the very characters."""

from __future__ import annotations

import json
from dataclasses import replace
from textwrap import dedent

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sgdeploy.console.caret import problem_lines
from sgdeploy.errors import ProfileError
from sgdeploy.problems import Place, Problem
from tests.unit.console.samples import screen

UNKNOWN = Problem(
    "unknown key `decod`", "did you mean `decode`?", ("decod",), "key", Place("my.yaml", 7, 3, "  decod: {}", 5)
)


def shown(problem: Problem) -> list[str]:
    return [str(line) for line in problem_lines(problem)]


def test_a_problem_and_the_count() -> None:
    made = screen()
    made.console.problems([UNKNOWN, Problem("port 40000 may be taken by the kernel", level="warning")])
    assert made.out.getvalue() == ""
    assert made.err.getvalue() == dedent("""\
        my.yaml:7:3: error: unknown key `decod`
            decod: {}
            ^^^^^
          hint: did you mean `decode`?
        warning: port 40000 may be taken by the kernel
        1 error, 1 warning
        """)


def test_a_profile_error_looks_the_same() -> None:
    listed, raised = screen(), screen()
    listed.console.problems([UNKNOWN])
    raised.console.error(ProfileError([UNKNOWN]))
    assert raised.err.getvalue() == listed.err.getvalue()


def test_the_caret_stands_right_after_tabs() -> None:
    assert shown(Problem("x", place=Place("a", 1, 3, "\tk\tv: 1", 1)))[1:] == [
        "          k       v: 1",
        "           ^^^^^^^",
    ]


def test_the_caret_stands_right_after_wide_characters() -> None:
    assert shown(Problem("x", place=Place("a", 1, 5, "模型: 路径", 2)))[1:] == ["  模型: 路径", "        ^^^^"]


def test_the_caret_stands_right_after_control_characters() -> None:
    assert shown(Problem("x", place=Place("a", 1, 2, "\x07v", 1)))[1:] == [r"  \x07v", "      ^"]


def test_a_caret_past_the_end_of_the_line_marks_one_cell() -> None:
    assert shown(Problem("x", place=Place("a", 1, 9, "key:", 4)))[1:] == ["  key:", "      ^"]


def test_no_source_line_where_it_is_unknown_or_empty() -> None:
    assert shown(Problem("x", place=Place("a", 1, 1, "   "))) == ["a:1:1: error: x"]


def test_a_very_long_line_is_shown_around_its_caret() -> None:
    text = "x" * 5000 + "HERE" + "y" * 5000
    _, source, caret = shown(Problem("m", place=Place("a", 1, 5001, text, 4)))
    assert source[caret.index("^") : caret.rindex("^") + 1] == "HERE"
    assert len(source) < 200


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), st.data())
def test_the_caret_always_stands_below_its_character(text: str, data: st.DataObject) -> None:
    column = data.draw(st.integers(min_value=1, max_value=len(text)))
    lines = shown(Problem("m", place=Place("a", 1, column, text)))
    if len(lines) == 1:
        assert not text.strip()
        return
    before = lines[2].index("^") - 2
    # What stands left of the caret is as wide as the text before the column, tabs counted to the next stop.
    left = shown(Problem("m", place=Place("a", 1, 1, text[: column - 1] + "|")))[1][2:-1]
    assert before == cell_len(left)


def test_problems_as_json() -> None:
    made = screen("json")
    made.console.problems([UNKNOWN])
    assert json.loads(made.out.getvalue()) == {
        "event": "problem",
        "level": "error",
        "code": "",
        "message": "unknown key `decod`",
        "hint": "did you mean `decode`?",
        "path": ["decod"],
        "file": "my.yaml",
        "line": 7,
        "column": 3,
    }
    assert made.err.getvalue().startswith("my.yaml:7:3: error: unknown key `decod`\n")


def test_a_warning_as_json_leaves_stderr_to_errors() -> None:
    made = screen("json")
    made.console.problems([replace(UNKNOWN, level="warning")])
    assert json.loads(made.out.getvalue())["level"] == "warning"
    assert made.err.getvalue() == ""
