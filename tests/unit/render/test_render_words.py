"""Whatever a value holds, the process receives it byte for byte, and nothing of it ever runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sgdeploy.render.quote import RenderError, final, path, plain, variable, word
from tests.unit.render.render_bench import Bench
from tests.unit.render.render_plans import process

if TYPE_CHECKING:
    from pathlib import Path

CASES = 2400
BATCH = 60

_FRAGMENTS = (
    *("'", '"', "$", "`", "\\", "\n", ";", "-", "--", " ", "!", "*", "?", "~", "&", "|", "\r", "\t", "\x01", "\x7f"),
    *("$(touch RAN)", "`touch RAN`", "; touch RAN #", "'; touch RAN; '", '"; touch RAN; "', "\ntouch RAN\n"),
    *("${HOME}", "$'\\n'", "{a,b}", "[[", "=", "<(true)", ">RAN", "\x1b[31m", "%s%n", "é", "中文", "\u2028", "🙂", "ß"),
)
_characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
_texts = st.lists(st.one_of(st.sampled_from(_FRAGMENTS), st.text(_characters, max_size=6)), max_size=8).map("".join)
_names = (
    _texts.map(lambda text: text.replace("/", "-"))
    .filter(lambda text: text not in {"", ".", ".."})
    .filter(lambda text: len(text.encode()) <= 200)
)


@dataclass(frozen=True)
class Case:
    """One argument, one value, two entries of a search path and one file name."""

    argument: str
    value: str
    entries: tuple[str, str]
    name: str


def hostile_cases(count: int) -> list[Case]:
    found: list[Case] = []

    @settings(max_examples=count, deadline=None, database=None, phases=[Phase.generate])
    @given(st.builds(Case, _texts, _texts, st.tuples(_texts, _texts), _names))
    def keep(case: Case) -> None:
        found.append(case)

    keep()
    return found


def expected(case: Case, index: int, run_dir: Path, inherited: dict[str, str]) -> tuple[bytes, ...]:
    joined = ":".join(case.entries)
    before = inherited.get(f"P{index}")
    return (
        case.argument.encode(),
        f"{run_dir}/{case.name}".encode(),
        case.value.encode(),
        (joined if before is None else f"{joined}:{before}").encode(),
    )


def received(bench: Bench, cases: list[Case], inherited: dict[str, str]) -> list[tuple[bytes, ...]]:
    """Send many cases through one script, and give what arrived of each."""
    first = len(bench.standin)
    rank = process(
        id=f"dsv3/native/{cases[0].name}",
        argv=(*bench.standin, *(text for case in cases for text in (case.argument, case.name))),
        in_run_dir=tuple(first + 2 * index + 1 for index in range(len(cases))),
        env={f"V{index}": case.value for index, case in enumerate(cases)},
        env_prepend={f"P{index}": case.entries for index, case in enumerate(cases)},
        cwd=str(bench.run_dir / "cwd" / cases[-1].name),
    )
    (bench.run_dir / "cwd" / cases[-1].name).mkdir(parents=True, exist_ok=True)
    ran = bench.run(rank, inherited)
    assert ran.seen is not None, ran.err
    assert (ran.code, ran.err) == (0, "")
    assert ran.seen.cwd == str(rank.cwd).encode()
    return [
        (
            ran.seen.argv[2 * index],
            ran.seen.argv[2 * index + 1],
            ran.seen.environ[f"V{index}".encode()],
            ran.seen.environ[f"P{index}".encode()],
        )
        for index in range(len(cases))
    ]


def test_any_value_arrives_unchanged_and_never_runs(tmp_path: Path) -> None:
    cases = hostile_cases(CASES)
    assert len(cases) >= 2000
    for start in range(0, len(cases), BATCH):
        batch = cases[start : start + BATCH]
        bench = Bench.at(tmp_path, f"{start} {batch[0].name}")
        inherited = {f"P{index}": case.argument for index, case in enumerate(batch) if case.argument and index % 2}
        for index, got in enumerate(received(bench, batch, inherited)):
            assert got == expected(batch[index], index, bench.run_dir, inherited)
    assert not list(tmp_path.rglob("RAN"))


@pytest.mark.parametrize("name", ["-n", "a b", "ends\n", "'", "$(touch RAN)", "中文", "--"])
def test_the_program_itself_may_have_any_name(tmp_path: Path, name: str) -> None:
    bench = Bench.at(tmp_path)
    program = bench.run_dir / name
    program.write_text('#!/bin/sh\nprintf %s "$1" >"$2"\n')
    program.chmod(0o755)
    rank = process(argv=(name, "-it ran", "out"), in_run_dir=(0, 2))
    ran = bench.run(rank)
    assert (ran.code, ran.err) == (0, "")
    assert (bench.run_dir / "out").read_text() == "-it ran"
    assert sorted(entry.name for entry in bench.run_dir.iterdir()) == sorted(["out", "scripts", name])


def test_empty_text_is_a_word() -> None:
    assert word("") == "''"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\0b", r"'a\x00b' holds a NUL character, which no argument and no variable of a process can hold"),
        ("a\udc80", r"'a\udc80' cannot be written as UTF-8 (surrogates not allowed)"),
    ],
)
def test_what_no_process_can_receive_is_refused(text: str, message: str) -> None:
    with pytest.raises(RenderError) as caught:
        word(text)
    assert str(caught.value) == message


def test_paths_know_the_home_folder_and_never_become_options() -> None:
    assert path("~/a b") == "\"$HOME\"/'a b'"
    assert path("~") == '"$HOME"'
    assert path("-") == "./-"
    assert path("/x") == "/x"
    assert path("~other") == "'./~other'"


@pytest.mark.parametrize("name", ["UID", "BASHOPTS", "BASH_ARGV", "RANDOM", "_", "run_dir", "SGDEPLOY_SECRET_X"])
def test_variables_that_would_not_arrive_are_refused(name: str) -> None:
    with pytest.raises(RenderError, match="would not reach the process"):
        variable(name)


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=B", "A\n", "a[$(touch RAN)]", "É"])
def test_what_is_no_variable_name_is_refused(name: str) -> None:
    with pytest.raises(RenderError, match="no name of an environment variable"):
        variable(name)


@pytest.mark.parametrize(
    "name", ["PATH", "IFS", "LC_ALL", "BASH_ENV", "TMOUT", "PWD", "POSIXLY_CORRECT", "hook", "script"]
)
def test_other_variables_of_the_shell_arrive(tmp_path: Path, name: str) -> None:
    bench = Bench.at(tmp_path)
    ran = bench.run(process(argv=(*bench.standin, "x y"), env={name: "C"}))
    assert ran.seen is not None, ran.err
    assert (ran.seen.environ[name.encode()], ran.seen.argv) == (b"C", [b"x y"])


def test_a_comment_stays_one_line() -> None:
    assert plain("a\nrm -rf x\u2028\x1b[31m中") == "a?rm -rf x??[31m中"


def test_templates_put_out_words_and_numbers_only() -> None:
    assert final("a b") == "'a b'"
    assert final(plain("a b")) == "a b"
    assert final(7) == 7
    for value in (None, True):
        with pytest.raises(RenderError, match="which is no text"):
            final(value)
