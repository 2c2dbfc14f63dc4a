"""`watch` with real processes: a killed rank comes back, and the cap ends it."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest

from tests.local.kit import LIMIT, NAME, Ground, until

pytestmark = pytest.mark.timeout(300)

POLICY = """\
  b: {hosts: b, parallel: {tp: 1}, restart: {max: 1, backoff: 1s}}
"""


def ready(process: subprocess.Popen[str]) -> None:
    def is_ready(event: dict[str, Any]) -> bool:
        return "every rank is ready; restarted on failure: " in str(event.get("message"))

    until(process, "every rank being ready", is_ready)


def test_a_killed_rank_comes_back_ready_and_the_cap_ends_it(ground: Ground) -> None:
    path = ground.profile()
    path.write_text(path.read_text().replace("  b: {hosts: b, parallel: {tp: 1}}\n", POLICY))
    ground.well("up", str(path))
    before = ground.pids()
    victim = f"native/b/{ground.host(3)}"
    process = ground.popen("watch", NAME, "--json")
    ready(process)
    assert ground.run("up", str(path)).returncode == 0, "the lock is free while it looks"

    os.kill(before[victim], signal.SIGKILL)
    restarts = until(process, "a restart", lambda e: e["event"] == "note" and "restart 1 in a row" in e["message"])
    assert restarts["message"] == "native/b restarts in 1 s (restart 1 in a row)"
    ready(process)
    after = ground.pids()
    assert {name for name, pid in after.items() if before[name] != pid} == {victim}
    assert ground.run("status", NAME).returncode == 0

    os.kill(after[victim], signal.SIGKILL)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 6
    assert "native/b has failed again after 1 restart in a row" in err
    assert "sgdeploy restart again native/b" in err
    assert ground.pids()[f"native/a/{ground.host(1)}"] == before[f"native/a/{ground.host(1)}"]
    history = ground.run("history", NAME).stdout
    assert "watch: starts native/b" in history


def test_ctrl_c_and_a_down_by_others_end_it(ground: Ground) -> None:
    profile = str(ground.profile())
    assert ground.run("watch", profile).returncode == 9
    ground.well("up", profile)
    process = ground.popen("watch", NAME, "--json")
    ready(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "stopped watching; what runs goes on" in err
    assert ground.run("status", NAME).returncode == 0
