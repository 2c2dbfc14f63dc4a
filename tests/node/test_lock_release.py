"""Locks whose controllers may be gone: what is told of them, and how they are taken away."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.node.deployment import Deployment
from tests.node.test_lock import ME, YOU
from tests.node.wire import PATIENCE, Helper, Json, RefusedError, living, patched, wait_for

Helpers = Callable[..., Helper]
QUICK = ("SILENCE = 60.0", "SILENCE = 1.5")


@pytest.fixture
def asker(helpers: Helpers, deployment: Deployment) -> Deployment:
    """Another controller's view of the same folder."""
    return Deployment(deployment.run_dir, helpers())


def held(asker: Deployment) -> Json:
    """Give how the lock stands."""
    found: Json = asker.call("lock_state")["held"]
    return found


def test_a_lock_tells_when_its_controller_was_heard(deployment: Deployment, asker: Deployment) -> None:
    assert asker.call("lock_state") == {"held": None}
    deployment.call("lock", owner=ME)
    state = held(asker)
    assert (state["owner"], state["helper"], state["seen"]) == (ME, deployment.helper.pid, True)
    assert state["silent"] < PATIENCE
    time.sleep(2.0)
    silent = held(asker)["silent"]
    assert silent >= 1.9
    assert held(asker)["left"] == pytest.approx(60.0 - silent, abs=2.0)
    deployment.call("ping")
    assert held(asker)["silent"] < silent


def test_a_lock_is_not_taken_from_one_who_may_live(deployment: Deployment, asker: Deployment) -> None:
    deployment.call("lock", owner=ME)
    with pytest.raises(RefusedError, match="lock-alive") as refused:
        asker.call("lock_release", by="you")
    assert refused.value.details["owner"] == ME
    assert deployment.call("lock_owner") == {"owner": ME}


def test_whoever_loses_a_lock_is_told_by_whom_and_what_was_started_goes_on(
    helpers: Helpers, deployment: Deployment, asker: Deployment
) -> None:
    deployment.call("lock", owner=ME)
    pid = deployment.run(a="exec sleep 300")["a"]
    watching = deployment.helper.stream("lock_hold", run_dir=str(deployment.run_dir))
    assert asker.call("lock_release", by="released by you@there", force=True)["released"]["owner"] == ME
    with pytest.raises(RefusedError, match="lock-taken: taken by released by you@there"):
        watching.next()
    assert deployment.helper.process.wait(PATIENCE) == 1
    assert asker.call("lock_state") == {"held": None}
    assert not (deployment.run_dir / "lock.taken").exists()
    assert living(pid)
    asker.call("lock", owner=YOU)
    deployment.helper = helpers()


def test_a_stopped_helper_is_ended_once_it_was_silent_long_enough(helpers: Helpers, deployment: Deployment) -> None:
    """It would hold the lock for ever."""
    asker = Deployment(deployment.run_dir, helpers(modules=patched(QUICK)))
    deployment.call("lock", owner=ME)
    os.kill(deployment.helper.pid, signal.SIGSTOP)

    def may_be_released() -> bool:
        state = held(asker)
        return bool(state["stopped"]) and state["silent"] > 1.6

    wait_for(may_be_released, "the silence of a stopped helper")
    assert asker.call("lock_release", by="you")["released"]["helper"] == deployment.helper.pid
    assert deployment.helper.process.wait(PATIENCE) == -signal.SIGKILL
    assert asker.call("lock_state") == {"held": None}


def test_a_free_lock_needs_no_release(deployment: Deployment, asker: Deployment) -> None:
    assert asker.call("lock_release", by="you") == {"released": None}
    deployment.call("lock", owner=ME)
    deployment.call("unlock")
    assert asker.call("lock_release", by="you", force=True) == {"released": None}
    assert living(deployment.helper.pid)


def test_nobody_is_ended_who_is_not_proven_to_hold_it(deployment: Deployment, asker: Deployment) -> None:
    """The pid in the file may be somebody else's by now."""
    deployment.call("lock", owner=ME)
    file = deployment.run_dir / "lock"
    file.write_text(file.read_text().replace('"helper_start": ', '"helper_start": 1'))
    with pytest.raises(RefusedError, match="not-seen"):
        asker.call("lock_release", by="you", force=True)
    assert living(deployment.helper.pid)
