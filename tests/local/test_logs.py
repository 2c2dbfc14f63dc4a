"""`logs` of real processes: while they run, after `down`, into pipes that nobody reads, and in little memory."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.local.kit import LIMIT, Ground, wait_until

pytestmark = pytest.mark.timeout(300)

MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command and says how many kB it took at most; a small Python, since the memory of whoever forks counts."""


def written(ground: Ground, profile: str, number: int, text: str = "") -> Path:
    """Put a log where a process of a host would have left it; nothing runs."""
    plan = json.loads(ground.run("plan", profile, "--json").stdout)
    name: str = next(process["log"] for process in plan["processes"] if process["host"] == ground.host(number))
    path = ground.run_folder(number) / "logs" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_the_logs_of_all_ranks_stay_after_down(ground: Ground) -> None:
    profile = str(ground.profile())
    ground.well("up", profile)
    ready = ground.run("logs", "again", "--grep", "FIRED UP", "-i")
    assert ready.returncode == 0, ready.stderr
    assert sorted(line.split(" |")[0].split()[0] for line in ready.stdout.splitlines()) == [
        ground.host(1),
        ground.host(3),
    ]
    whole = ground.run("logs", "again", "--tail", "all").stdout.splitlines()
    assert {line.split()[0] for line in whole} == {ground.host(number) for number in (1, 2, 3)}
    stamps = [line.split("[", 1)[1][:19] for line in whole if "| [20" in line]
    assert stamps == sorted(stamps)
    assert ground.run("down", "again").returncode == 0
    after = ground.run("logs", profile, "--only", "native/b", "--tail", "3")
    assert (after.returncode, len(after.stdout.splitlines())) == (0, 3), after.stderr
    since = ground.run("logs", profile, "--since", "10m").stdout.splitlines()
    assert len(since) > len(whole)
    before = ground.run("logs", profile, "--previous")
    assert (before.returncode, before.stdout) == (0, "")
    assert "no earlier run is on record" in before.stderr


def test_what_is_added_is_followed_until_ctrl_c(ground: Ground) -> None:
    profile = str(ground.profile())
    log, shown = written(ground, profile, 2, "old\n"), ground.folder / "shown"
    with shown.open("w") as out:
        following = ground.popen("logs", profile, "--follow", "--only", ground.host(2), stdout=out)
    wait_until("the end of what was there", lambda: "| old" in shown.read_text(), LIMIT)
    with log.open("a") as more:
        more.write("new\n")
    wait_until("a line that was added", lambda: "| new" in shown.read_text(), LIMIT)
    following.send_signal(signal.SIGINT)
    assert following.wait(LIMIT) == 130
    assert following.stderr is not None
    assert following.stderr.read() == ""


@pytest.mark.parametrize("more", [[], ["--follow"]])
def test_a_pipe_that_is_closed_ends_it_silently(ground: Ground, more: list[str]) -> None:
    profile = str(ground.profile())
    written(ground, profile, 1, "".join(f"line {number} {'x' * 200}\n" for number in range(20_000)))
    reader = ground.popen("logs", profile, "--tail", "all", "--only", ground.host(1), *more)
    assert reader.stdout is not None
    assert reader.stdout.readline() != ""
    reader.stdout.close()
    reader.stdout = None
    assert reader.wait(LIMIT) == 0
    assert reader.stderr is not None
    assert reader.stderr.read() == ""


def test_a_gigabyte_without_a_line_end_costs_the_controller_no_memory(ground: Ground) -> None:
    profile = str(ground.profile())
    log = written(ground, profile, 1, "begin\n")
    os.truncate(log, 1 << 30)
    with log.open("a") as out:
        out.write("\nthe end\n")
    before = (sys.executable, "-I", "-S", "-c", MEASURED, sys.executable)
    told = ground.popen("logs", profile, "--tail", "2", "--only", ground.host(1), before=before)
    shown, noted = told.communicate(timeout=LIMIT)
    lines = shown.splitlines()
    assert (told.returncode, lines[-1].endswith("| the end")) == (0, True)
    assert len(lines[0]) < 70_000
    assert int(noted.splitlines()[-1]) < 150_000
