"""``sgdeploy lock`` and ``--lock-wait``: from their words to the use cases, and to the exit code."""

from __future__ import annotations

import json

import pytest

from sgdeploy.deploy import locking
from sgdeploy.deploy.locking import LockState
from sgdeploy.deploy.options import Owner
from sgdeploy.errors import LockedError
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Connector
from tests.unit.cli.conftest import Call

HELD = LockState("tiny", "a1", {"user": "ann", "host": "desk", "pid": 5, "command": "sgdeploy up"}, 77, 3.0, 57.0)


def test_a_lock_is_told_to_people_and_to_programs(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(_plan: Plan, _connector: Connector) -> LockState:
        return HELD

    monkeypatch.setattr(locking, "lock_state", look)
    told = call("lock", "status", "tiny.yaml")
    assert (told.code, told.err) == (0, "")
    assert told.out == (
        "tiny: held on a1 by ann@desk (pid 5), since ?, command `sgdeploy up`; "
        "its controller was heard 3 s ago: it is at work\n"
    )
    data = json.loads(call("lock", "status", "tiny.yaml", "--json").out)
    assert (data["owner"]["user"], data["helper"], data["left"], data["gone"]) == ("ann", 77, 57.0, False)
    assert "no deployment is known" in call("lock").err


def test_a_lock_is_released_only_as_far_as_it_was_asked_for(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    async def release(_plan: Plan, _connector: Connector, owner: Owner, *, force: bool) -> LockState:
        assert owner.machine
        assert owner.start
        asked.append(force)
        if not force:
            raise LockedError("ann holds it", hint="--force")
        return HELD

    monkeypatch.setattr(locking, "release_lock", release)
    assert call("lock", "release", "tiny.yaml").code == 4
    done = call("lock", "release", "tiny.yaml", "--force")
    assert (done.code, asked) == (0, [False, True])
    assert done.err.startswith("tiny: the lock on host a1 is free; it was held by ann@desk (pid 5)")
