"""The fault matrix, controllers: they are killed at each stage, meet each other, and wait for a host that is slow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.deployments import QUICK, engines, small_profile
from tests.cluster.running import Stopwatch, running
from tests.kit.hosts import Lab, lent
from tests.kit.labhost import wait_until
from tests.kit.matrix import Heard

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(150)]

STAGES = {
    1: "connect",
    2: "look",
    3: "write",
    4: "start",
    5: "wait",
    6: "completion",
}
"""Steps of `up` by number: at the begin of each, and so at the end of the one before, the controller is killed."""


@pytest.fixture
def elsewhere(pair: Lab, tmp_path: Path) -> dict[str, str]:
    """Give the environment of a second controller, which knows the profile and nothing of the first one."""
    home = tmp_path / "elsewhere"
    shutil.copytree(pair.home / ".ssh", home / ".ssh")
    return {"HOME": str(home)}


@pytest.mark.fault("controller killed at each stage", told="small", code=0)
@pytest.mark.parametrize("stage", list(STAGES), ids=list(STAGES.values()))
def test_a_controller_that_is_killed(
    pair: Lab, tmp_path: Path, elsewhere: dict[str, str], stage: int, heard: Heard
) -> None:
    """Whatever it had done, another one sees it at once and takes it down."""
    profile = str(small_profile(pair, tmp_path, **QUICK))
    with running(pair, "up", profile) as up:
        up.step(stage)
        up.process.kill()
    watch = Stopwatch()

    def free() -> bool:
        seen = pair.sgdeploy("status", profile, "--json", env=elsewhere)
        assert seen.returncode in {0, 1, 9}, seen.stderr
        return bool(json.loads(seen.stdout)["locked_by"] == "")

    wait_until(free, "the dead controller's lock to be free", 30)
    status = json.loads(pair.sgdeploy("status", profile, "--json", env=elsewhere).stdout)
    started = sum(len(engines(host)) for host in pair.hosts)
    assert (status["state"] == "down") == (started == 0), status
    down = pair.sgdeploy("down", profile, env=elsewhere)
    assert all(engines(host) == [] for host in pair.hosts)
    heard(down.stderr, down.returncode, watch.seconds)
    shutil.rmtree(pair.home / ".local", ignore_errors=True)


@pytest.mark.fault(
    "two up at once", told="another sgdeploy works on this deployment: …command `sgdeploy up … lock on host n01", code=4
)
def test_a_second_up_is_told_who_works(pair: Lab, tmp_path: Path, elsewhere: dict[str, str], heard: Heard) -> None:
    profile = str(small_profile(pair, tmp_path, **QUICK, SGDEPLOY_REHEARSE_FAIL="hang@load:n1"))
    with running(pair, "up", profile) as first:
        first.step(4)
        watch = Stopwatch()
        second = pair.sgdeploy("up", profile, env=elsewhere)
        seconds = watch.seconds
        first.process.terminate()
        first.end()
    down = pair.sgdeploy("down", profile, env=elsewhere)
    assert down.returncode == 0, down.stderr
    heard(second.stderr, second.returncode, seconds)


SLOW = 20
MANY = 64


@pytest.fixture(scope="module")
def hall() -> Iterator[Lab]:
    """Give 64 hosts."""
    with lent(MANY, disk="72m") as made:
        yield made


@pytest.mark.fault(
    "1 of 64 hosts slow by 20 s", told="n33: not open yet after 10 s … dry-run: all checks passed", code=0
)
def test_one_host_of_many_that_is_slow(hall: Lab, tmp_path: Path, heard: Heard) -> None:
    """It costs its own twenty seconds and no more, and whoever waits reads for whom."""
    hall.host("n33").write("/root/.bashrc", f"sleep {SLOW}\n")
    watch = Stopwatch()
    up = hall.sgdeploy("up", str(small_profile(hall, tmp_path, **QUICK)), "--dry-run")
    seconds = watch.seconds
    assert seconds >= SLOW
    assert all(host.path("/var/lib/sgdeploy").exists() is False for host in hall.hosts)
    heard(up.stderr, up.returncode, seconds)
