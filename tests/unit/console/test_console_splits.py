"""How a split is shown: a bar on a terminal, a line now and then in a log, an object for programs."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from sgdeploy.console.console import Console
from sgdeploy.console.splits import PLAIN_INTERVAL, SplitPicture
from sgdeploy.deploy.events import Outcome, SplitProgress
from tests.unit.console.samples import NOW, screen

HALF = SplitProgress("", 12, 32, 1_500_000_000, 3_000_000_000, 1_250_000_000.0, 1.2)
END = replace(HALF, files=32, written=3_000_000_000, left=0.0)


def drawn(*events: SplitProgress, width: int | None = None, height: int | None = None) -> list[str]:
    picture = SplitPicture()
    for event in events:
        picture.hear(event, NOW)
    return [str(line) for line in picture.lines(NOW, width=width, height=height)]


def test_a_bar_with_bytes_rate_and_time_left() -> None:
    assert drawn(HALF) == [f"{'━' * 24} 12 of 32 files, 1.5 GB of 3.0 GB, 1.2 GB/s, 1.2 s left"]
    assert drawn(END) == [f"{'━' * 24} 32 of 32 files, 3.0 GB of 3.0 GB, 1.2 GB/s"]
    assert drawn(replace(HALF, rate=0.0, left=None))[0].endswith("1.5 GB of 3.0 GB")
    assert drawn(replace(HALF, doing="verify"))[0].endswith("1.5 GB of 3.0 GB, 1.2 GB/s, 1.2 s left")


def test_a_line_for_each_host_and_those_behind_where_they_do_not_fit() -> None:
    hosts = [replace(HALF, host=f"n{number:02d}", written=number * 100_000_000) for number in range(30)]
    assert len(drawn(*hosts)) == 30
    few = drawn(*hosts, width=60, height=8)
    assert [line[:4] for line in few[:5]] == [f"n0{number}:" for number in range(5)]
    assert few[5:] == ["… and 25 hosts further on"]
    assert max(map(len, few)) <= 60


def test_nothing_to_write_counts_as_done() -> None:
    assert drawn(SplitProgress("", 0, 0, 0, 0, 0.0, None)) == [f"{'━' * 24} 0 of 0 files, 0 bytes of 0 bytes"]


def test_a_log_gets_a_line_now_and_then_and_the_end() -> None:
    now = [NOW]
    err = io.StringIO()
    console = Console("plain", out=io.StringIO(), err=err, clock=lambda: now[0])
    for _ in range(25):
        console.tell(HALF)
        now[0] += 1.0
    console.tell(END)
    console.tell(END)  # the last report of the workers and that of the whole say the same
    lines = err.getvalue().splitlines()
    assert len(lines) == 25 // PLAIN_INTERVAL + 1
    assert lines[0] == "12 of 32 files, 1.5 GB of 3.0 GB, 1.2 GB/s, 1.2 s left"
    assert lines[-1] == "32 of 32 files, 3.0 GB of 3.0 GB, 1.2 GB/s"


def test_an_object_for_programs() -> None:
    made = screen("json")
    made.console.tell(HALF)
    made.console.tell(Outcome("split", "32 files", 3.0))
    first, last = map(json.loads, made.out.getvalue().splitlines())
    assert first == {
        "event": "split",
        "time": NOW,
        "host": "",
        "files": 12,
        "of_files": 32,
        "written": 1_500_000_000,
        "of_bytes": 3_000_000_000,
        "rate": 1_250_000_000.0,
        "left": 1.2,
        "doing": "split",
    }
    assert last["outcome"] == "split"
    assert made.err.getvalue() == ""


def test_quiet_says_only_the_outcome() -> None:
    made = screen(quiet=True)
    with made.console.splitting():
        made.console.tell(END)
        made.console.tell(Outcome("split", "32 files", 3.0))
    assert made.err.getvalue() == "split: 32 files (3.0 s)\n"


def test_on_a_terminal_the_last_state_stays() -> None:
    made = screen("live", color=True)
    with made.console.splitting():
        made.console.tell(HALF)
        made.console.tell(END)
        made.console.tell(Outcome("split", "32 files", 3.0))
    shown = made.err.getvalue()
    assert shown.endswith("(3.0 s)\n")
    assert "32 of 32 files" in shown
    assert "\x1b[?25h" in shown
