"""The live table: every rank while they fit, hosts and laggards beyond, and a terminal that is sane afterwards."""

from __future__ import annotations

import pytest

from sgdeploy.console.board import Board
from sgdeploy.console.live import board_lines
from sgdeploy.console.text import clean
from sgdeploy.deploy.events import (
    Event,
    Heartbeat,
    HostState,
    Note,
    Outcome,
    ProcessFailed,
    RankState,
    Replanned,
    State,
    Step,
)
from sgdeploy.deploy.replan import Replan, UnitFate
from tests.unit.console.samples import Screen, plan, screen

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def drawn(board: Board, now: float = 0.0, width: int | None = None, height: int | None = None) -> list[str]:
    return [str(line) for line in board_lines(board, now, width=width, height=height)]


def rank(
    host: int, number: int, state: State = "ready", phase: str = "warm-up done", seconds: float = 30.0
) -> RankState:
    name = f"n{host:02d}"
    return RankState(f"big/native/{name}/r{number:02d}", name, state, phase, seconds, "last [b]line[/b]")


def fed(board: Board, *events: Event, now: float = 0.0) -> Board:
    for event in events:
        board.hear(event, now)
    return board


def small() -> Board:
    board = Board()
    board.expect(plan(), ranks=True)
    return fed(
        board,
        Step(5, 6, "wait for every rank"),
        rank(1, 0),
        rank(1, 1, "loading", "weights loaded", 12.0),
        ProcessFailed("big/native/n02/r00", "n02", "exit code 3", ("no such file",), "/x", 0.5),
        Heartbeat(2.0, {}, "native/n01/r01"),
    )


def test_a_row_for_every_rank() -> None:
    assert drawn(small(), now=2.0) == [
        "[5/6] wait for every rank  1 failed · 1 ready · 1 loading · 1 planned",
        "HOST  RANK        STATE    PHASE           TIME   LAST LOG LINE",
        "n01   native/r00  ready    warm-up done    30 s   last [b]line[/b]",
        "n01   native/r01  loading  weights loaded  14 s   last [b]line[/b]",
        "n02   native/r00  failed   exit code 3     0.0 s  no such file",
        "n02   native/r01  planned",
        "waiting for native/n01/r01",
    ]


def test_what_runs_before_it_is_looked_at_is_not_shown_as_if_it_did_not() -> None:
    """The table stands above the question whether it may be stopped, and after a no."""
    board, wanted = Board(), plan()
    board.expect(wanted, ranks=True)
    fates = (UnitFate("native", "restart", living=4, whole=True), UnitFate("gone", "stop", living=1, whole=True))
    rows = drawn(fed(board, Replanned(Replan(wanted, fates))))
    assert [row.split(maxsplit=3)[2:] for row in rows[2:]] == [["planned", "runs, is to restart"]] * 4
    assert [row.split(maxsplit=3)[2:4] for row in drawn(fed(board, rank(1, 0)))[2:3]] == [
        ["ready", "warm-up done         30 s  last [b]line[/b]"]
    ]


def big(hosts: int = 16) -> Board:
    board = Board()
    board.expect(plan(hosts, 16), ranks=True)
    for host in range(1, hosts + 1):
        fed(board, *(rank(host, number) for number in range(15)), rank(host, 15, "loading", "weights loaded", 9.0))
    return fed(board, ProcessFailed("big/native/n03/r05", "n03", "killed by SIGKILL", (), "/x", 0.5))


def test_256_ranks_are_hosts_with_counts_and_the_ranks_behind() -> None:
    lines = drawn(big(), width=100)
    assert lines[0] == "1 failed · 239 ready · 16 loading"
    assert lines[1].split() == ["HOST", "LOADING", "READY", "FAILED", "HOST", "STATE"]
    assert lines[2].split() == ["n01", "1", "15", "-"]
    assert lines[4].split() == ["n03", "1", "14", "1"]
    assert len(lines) == 1 + 1 + 16 + 1 + 5
    assert lines[19].startswith("n03   native/r05  failed   killed by SIGKILL")
    assert lines[20].startswith("n01   native/r15  loading  weights loaded")


@pytest.mark.parametrize("height", [5, 8, 12, 24, 60])
@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_table_fits_the_terminal(height: int, width: int) -> None:
    for board in (small(), big(), big(64)):
        board.waiting = "x" * 300
        lines = drawn(board, width=width, height=height)
        assert max(map(len, lines)) <= width
        assert len(lines) < max(height, 9)


def test_what_does_not_fit_is_counted() -> None:
    lines = drawn(big(64), width=100, height=24)
    assert "… and 51 more hosts" in lines
    assert lines[2].split() == ["n03", "1", "14", "1"]  # a host in trouble is never among those left out


def terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    monkeypatch.setenv("TERM", "xterm-256color")
    return screen("live", color=True)


def test_the_last_state_stays_and_the_cursor_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made = terminal(monkeypatch)
    with made.console.watching(plan(16, 16)):
        for event in (Step(5, 6, "wait"), *(rank(h, r) for h in range(1, 17) for r in range(16))):
            made.console.tell(event)
        made.console.tell(Note("above the table"))
        made.console.tell(Outcome("ready", "serves", 1.0))
    written = made.err.getvalue()
    assert made.out.getvalue() == ""
    assert written.count(HIDE) == written.count(SHOW) == 1
    assert written.index("above the table") < written.index(SHOW)
    final = written[written.index(SHOW) :]
    assert "256 ready" in final
    assert final.index("n16") < final.index("serves")
    assert all(f"n{host:02d}" in final for host in range(1, 17))


def test_an_echoed_key_does_not_wrap_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made = terminal(monkeypatch)
    with made.console.watching(plan(1, 1)):
        made.console.tell(RankState("big/native/n01/r00", "n01", "loading", "", 1.0, "x" * 300))
    rows = [clean(row) for row in made.err.getvalue().splitlines() if "xxx" in row]
    *drawn_live, final = (len(row) for row in rows)
    assert drawn_live
    assert max(drawn_live) <= 100 - len("^C^C")
    assert final == 100


def test_the_terminal_is_sane_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    made = terminal(monkeypatch)

    def fail() -> None:
        with made.console.watching(plan()):
            made.console.tell(rank(1, 0, "loading", "weights loaded"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    written = made.err.getvalue()
    assert written.rindex(SHOW) > written.rindex(HIDE)
    assert "weights loaded" in written[written.rindex(SHOW) :]
    made.console.close()  # a second end changes nothing
    assert made.err.getvalue() == written


def test_events_after_the_table_are_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    made = terminal(monkeypatch)
    with made.console.watching(plan()):
        pass
    before = len(made.err.getvalue())
    made.console.tell(Step(1, 3, "connect"))
    assert "[1/3] connect" in made.err.getvalue()[before:]


def test_nothing_is_drawn_when_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    made = screen("live", quiet=True, color=True)
    with made.console.watching(plan()):
        made.console.tell(rank(1, 0))
    assert made.err.getvalue() == ""


def test_a_host_that_is_proven_clean_has_no_living_rank() -> None:
    board = fed(small(), HostState("n01", "stopped"), HostState("n02", "stopped"))
    assert board.counts() == {"planned": 1, "failed": 1, "stopped": 2}


def test_hosts_alone() -> None:
    board = Board()
    board.expect(plan(), ranks=False)
    fed(board, Step(2, 3, "stop 4 processes"), HostState("n01", "stopped"), HostState("n02", "stopping"))
    assert drawn(board) == ["[2/3] stop 4 processes", "HOST  STATE", "n01   stopped", "n02   stopping"]
