"""The lock over real sshd: a controller that is killed, one that is cut off, one that is alive and loses it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.deployments import engines, small_profile
from tests.kit.hosts import Lab
from tests.kit.labhost import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
LOCKED = 4


def state(pair: Lab, profile: str) -> dict[str, Any]:
    """Ask how the lock stands."""
    found: dict[str, Any] = json.loads(pair.sgdeploy("lock", "status", profile, "--json").stdout)
    return found


def bringing_up(pair: Lab, profile: str, errors: Path) -> subprocess.Popen[str]:
    """Start an `up` whose engines take their time, and wait until they run."""
    with errors.open("w") as stderr:
        process = pair.popen("up", profile, "--json", stderr=stderr, stdout=subprocess.DEVNULL)

    def there() -> bool:
        return process.poll() is not None or all(engines(host) for host in pair.hosts)

    wait_until(there, "engines on all hosts", 60)
    assert process.poll() is None, errors.read_text()
    return process


def take_down(pair: Lab, profile: str) -> None:
    """Take everything down."""
    down = pair.sgdeploy("down", profile, "--now", "--lock-wait", "30")
    assert down.returncode == 0, down.stderr


def test_a_killed_controller_leaves_no_lock(pair: Lab, tmp_path: Path) -> None:
    profile = str(small_profile(pair, tmp_path, SGDEPLOY_REHEARSE_SPEED="0.02"))
    with bringing_up(pair, profile, tmp_path / "errors") as process:
        before = state(pair, profile)
        assert before["owner"]["command"] == f"sgdeploy up {profile} --json"
        assert (before["gone"], before["silent"] < 20) == (False, True)
        process.kill()
    wait_until(lambda: state(pair, profile)["owner"] is None, "the lock of a dead controller to be free", 30)
    take_down(pair, profile)


def test_whoever_loses_the_lock_stops_and_leaves_everything_as_it_is(pair: Lab, tmp_path: Path) -> None:
    profile, errors = str(small_profile(pair, tmp_path, SGDEPLOY_REHEARSE_SPEED="0.02")), tmp_path / "errors"
    with bringing_up(pair, profile, errors) as process:
        refused = pair.sgdeploy("lock", "release", profile)
        assert (refused.returncode, "it is at work" in refused.stderr) == (LOCKED, True), refused.stderr
        other = pair.sgdeploy("down", profile)
        assert (other.returncode, "sgdeploy lock status" in other.stderr) == (LOCKED, True), other.stderr
        running = [engines(host) for host in pair.hosts]
        taken = pair.sgdeploy("lock", "release", profile, "--force")
        assert taken.returncode == 0, taken.stderr
        assert process.wait(60) == LOCKED, errors.read_text()
    assert "was taken by released by" in errors.read_text()
    assert [engines(host) for host in pair.hosts] == running
    take_down(pair, profile)


def test_a_controller_that_is_not_heard_is_told_from_one_at_work(pair: Lab, tmp_path: Path) -> None:
    """Stopped, it says as little as one behind a cut link; continued, it hears that its lock is gone."""
    profile, errors = str(small_profile(pair, tmp_path, SGDEPLOY_REHEARSE_SPEED="0.02")), tmp_path / "errors"
    with bringing_up(pair, profile, errors) as process:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: float(state(pair, profile)["silent"]) > 20, "a silence of 20 s", 60)
        refused = pair.sgdeploy("lock", "release", profile)
        assert refused.returncode == LOCKED
        assert "may be gone: the lock frees itself in at most" in refused.stderr
        running = [engines(host) for host in pair.hosts]
        assert pair.sgdeploy("lock", "release", profile, "--force").returncode == 0
        assert state(pair, profile)["owner"] is None
        process.send_signal(signal.SIGCONT)
        assert process.wait(60) == LOCKED, errors.read_text()
    assert [engines(host) for host in pair.hosts] == running
    take_down(pair, profile)
