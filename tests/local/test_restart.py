"""`restart` with real processes."""

from __future__ import annotations

import os
import signal

import pytest

from tests.local.kit import NAME, Ground, wait_until

pytestmark = pytest.mark.timeout(300)


def test_an_instance_restarts_as_a_whole_and_the_other_one_goes_on(ground: Ground) -> None:
    profile = str(ground.profile())
    ground.well("up", profile)
    before = ground.pids()
    events = ground.well("restart", NAME, "native/a")
    assert events.one("outcome")["outcome"] == "ready"
    assert events.one("completion")["tokens"] > 0
    after = ground.pids()
    assert {name for name, pid in after.items() if before[name] != pid} == {name for name in after if "/a/" in name}
    refused = ground.run("restart", NAME, ground.host(2))
    assert refused.returncode == 2
    assert "means only a part of native/a, which starts and stops as a whole" in refused.stderr


def test_one_that_broke_is_mended_from_another_machine(ground: Ground) -> None:
    """Whoever has the profile alone finds what runs by it; what it says of processes does not count."""
    path = ground.profile()
    ground.well("up", str(path))
    os.kill(ground.pids()[f"native/b/{ground.host(3)}"], signal.SIGKILL)
    wait_until("the end of the rank", lambda: ground.run("diff", str(path)).returncode == 1)
    ground.forget()
    path.write_text(path.read_text().replace("max-total-tokens: 8192", "max-total-tokens: 4096"))
    events = ground.well("restart", str(path), "native/b")
    assert events.one("outcome")["outcome"] == "ready"
    path.write_text(path.read_text().replace("max-total-tokens: 4096", "max-total-tokens: 8192"))
    assert ground.run("diff", str(path)).returncode == 0
