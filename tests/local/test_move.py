"""A deployment moves to other hosts, with real processes: what it leaves behind is found, ended and put away."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.local.kit import LIMIT, Ground, until, wait_until

pytestmark = pytest.mark.timeout(120)

PROFILE = """\
version: 1
name: again
topology: native
platform: cpu
inventory: {{version: 1, defaults: {{connection: local}}, groups: {{a: "{hosts}"}}}}
model: {{path: /models/none, served_name: again}}
engine: {{executable: rehearsal, flags: {{max-total-tokens: 8192, api-key: "${{env:KEY}}"}}, env: {env}}}
native: {{hosts: a, parallel: {{tp: 2}}}}
health: {{timeout: 60s, stall: 40s, grace: 2s}}
"""


@pytest.fixture
def move(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setenv("KEY", "s3cr3t")
    return ground


def placed(ground: Ground, numbers: str) -> str:
    """Write the profile for some hosts; it keeps its path, as a profile that is edited does."""
    path = ground.profile()
    env = path.read_text().partition("env: ")[2].partition("\n")[0]
    path.write_text(PROFILE.format(hosts=f"{ground.net}. | {numbers}", env=env))
    return str(path)


def left(ground: Ground, *numbers: int) -> list[Path]:
    """Give what hosts hold besides what stays after a ``down``: logs, the history, an empty lock."""
    folders = [ground.run_folder(number) for number in numbers]
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    stays = {"audit.log", "lock", "logs", "plans"}
    return [path for path in found if not stays & {*path.parts}]


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_move_that_is_interrupted_forgets_no_host(move: Ground) -> None:
    move.well("up", placed(move, "1-2"))
    before = move.pids()
    os.kill(before[f"native/{move.host(2)}"], signal.SIGSTOP)  # so that it takes its time to end
    moved = placed(move, "3-4")
    process = move.popen("up", moved, "--yes", "--json")
    until(process, "the stop", lambda event: event["event"] == "host" and event["state"] == "stopping")
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 130
    assert any(map(alive, before.values())), "the stopped rank goes on to hold its host"
    status = move.run("status", "again")
    assert move.host(2) in status.stdout

    move.well("up", moved, "--yes")
    assert not any(map(alive, before.values()))
    assert {name.rpartition("/")[2] for name in move.pids()} == {move.host(3), move.host(4)}
    assert left(move, 1, 2) == []
    move.well("down", "again")
    assert left(move, 1, 2, 3, 4) == []


def test_what_failed_on_hosts_that_are_left_is_put_away_there(move: Ground) -> None:
    move.well("up", placed(move, "1-2"))
    for pid in move.pids().values():
        os.kill(pid, signal.SIGKILL)
    wait_until("the end of the keepers", lambda: not (move.keepers(1) or move.keepers(2)))
    assert any("s3cr3t" in path.read_text(errors="replace") for path in left(move, 1, 2))
    move.well("up", placed(move, "3-4"))
    assert left(move, 1, 2) == []
    move.well("down", "again")
    assert left(move, 3, 4) == []


def test_who_serves_moves_only_after_a_yes(move: Ground) -> None:
    move.well("up", placed(move, "1-2"))
    before = move.pids()
    refused = move.run("up", placed(move, "3-4"))
    assert refused.returncode == 8
    assert "native of again may be serving and would be stopped; nothing was changed" in refused.stderr
    assert move.pids() == before
