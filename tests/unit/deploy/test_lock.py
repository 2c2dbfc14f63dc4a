"""The lock from the controller's side: waited for, lost, looked at, taken."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from sgdeploy.deploy.down import down
from sgdeploy.deploy.events import Event
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.lock import Patience, describe, locked
from sgdeploy.deploy.locking import lock_state, release_lock
from sgdeploy.deploy.up import up
from sgdeploy.deploy.whereabouts import is_proven_gone, machine, start_of
from sgdeploy.errors import HostFault, LockedError, RemoteError
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Json, LostHostError, NodeError
from tests.unit.deploy.fakes import OWNER, FakeConnector, FakeNode, Heard, cluster, down_options, make_plan, up_options

ANN: Json = {"user": "ann", "host": "desk", "pid": 5, "command": "sgdeploy up", "since": 0.0}


class LockNode(FakeNode):
    """A host whose lock can be looked at and taken."""

    silent = 3.0
    refusal = ""

    def _lock_state(self, _arguments: Json) -> Json:
        if self.locked_by is None:
            return {"held": None}
        more = {"helper": 77, "silent": self.silent, "left": 60 - self.silent, "stopped": False, "seen": True}
        return {"held": {"owner": self.locked_by, **more}}

    def _lock_release(self, arguments: Json) -> Json:
        if self.refusal or not (arguments["force"] or self.silent >= 60):
            raise NodeError(self.host.host, self.refusal or "lock-alive", "no", {})
        self.locked_by = None
        return {"released": {}}


def one_host(**changes: Any) -> tuple[Plan, FakeConnector, LockNode]:
    """Give a plan, its host, and a way there."""
    plan = make_plan(1)
    node = LockNode(plan.hosts[0], **changes)
    return plan, FakeConnector({"h1": node}), node


@pytest.mark.parametrize("command", ["up", "down"])
async def test_a_command_waits_for_the_lock_as_long_as_it_is_told_to(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sgdeploy.deploy.lock.AGAIN", 0.01)
    plan = make_plan(1)
    hosts, heard, waited = cluster(plan), Heard(), asyncio.Event()
    node = hosts.nodes["h1"]
    node.locked_by = ANN

    def tell(event: Event) -> None:
        heard(event)
        if "waiting for the lock, at most 30 s: ann@desk" in str(vars(event)):
            waited.set()

    async def run(seconds: float) -> None:
        if command == "up":
            await up(plan, hosts, tell, up_options(lock_wait=seconds))
        else:
            await down(plan, hosts, tell, down_options(lock_wait=seconds))

    with pytest.raises(LockedError, match="another sgdeploy works on this deployment: ann@desk"):
        await run(0.05)
    node.closed = False
    node.locked_by = ANN
    waiting = asyncio.ensure_future(run(30))
    await asyncio.wait_for(waited.wait(), 10)
    node.locked_by = None
    await waiting
    assert heard.events
    assert node.locked_by is None


class Closing(FakeNode):
    """A host whose session, once closed, is lost."""

    async def close(self) -> None:
        """Close, as a session does: whatever waits or comes is told."""
        await super().close()
        self.lost = LostHostError(self.host.host, "the session was closed")
        self.script = [self.lost]
        if self.hold is not None:
            self.hold.set()


async def test_whoever_loses_the_lock_does_nothing_more_anywhere() -> None:
    plan, heard = make_plan(2), Heard()
    nodes: dict[str, FakeNode] = {host.host: Closing(host, hold=asyncio.Event()) for host in plan.hosts}
    bringing = asyncio.ensure_future(up(plan, FakeConnector(nodes), heard, up_options()))
    for node in nodes.values():
        await node.watched.wait()
    before = {name: len(node.calls) for name, node in nodes.items()}
    nodes["h1"].robbed.set()
    with pytest.raises(LockedError, match="the lock on host h1 was taken by ann; this command has stopped") as raised:
        await bringing
    assert raised.value.exit_code == 4
    assert all(node.living for node in nodes.values())
    acted = {op for name, node in nodes.items() for op, _ in node.calls[before[name] :]}
    assert not acted & {"signal", "clear", "restore", "prepare", "start", "lock"}


async def test_a_body_that_fails_by_itself_is_not_blamed_on_the_lock() -> None:
    plan, _, node = one_host()
    with pytest.raises(ValueError, match="its own"):
        async with locked(Fleet({"h1": node}), plan.hosts[0], OWNER, Patience()):
            raise ValueError("its own")
    assert node.locked_by is None


async def test_a_lock_is_looked_at() -> None:
    plan, hosts, node = one_host()
    free = await lock_state(plan, hosts)
    assert (free.owner, free.verdict) == (None, "nobody is at work")
    for silent, verdict in (
        (3.0, "its controller was heard 3 s ago: it is at work"),
        (
            35.0,
            "heard 35 s ago and may be gone: the lock frees itself in at most 25 s; `sgdeploy lock release --force`",
        ),
    ):
        node.locked_by, node.silent = ANN, silent
        found = await lock_state(plan, hosts)
        assert found.holder.startswith("ann@desk (pid 5), since ")
        assert verdict in found.verdict
        assert found.to_json()["helper"] == 77


async def test_a_lock_is_released_where_its_holder_is_gone_or_it_is_forced() -> None:
    plan, hosts, node = one_host(locked_by=ANN)
    with pytest.raises(LockedError, match=r"ann@desk .* holds the lock on host h1: its controller was heard 3 s ago"):
        await release_lock(plan, hosts, OWNER, force=False)
    node.locked_by = ANN
    assert (await release_lock(plan, hosts, OWNER, force=True)).owner == ANN
    asked = next(arguments for op, arguments in reversed(node.calls) if op == "lock_release")
    assert asked["by"] == "released by op@laptop (pid 42)"
    node.locked_by = {**ANN, "machine": machine(), "pid": os.getpid(), "start": 1}
    assert (await release_lock(plan, hosts, OWNER, force=False)).gone
    assert (await release_lock(plan, hosts, OWNER, force=False)).owner is None


async def test_what_keeps_a_lock_from_being_released_is_told() -> None:
    plan, hosts, node = one_host(locked_by=ANN)
    node.refusal = "not-seen"
    with pytest.raises(LockedError, match="could not be freed: no"):
        await release_lock(plan, hosts, OWNER, force=True)
    hosts.down["h1"] = HostFault("h1", "no route")
    with pytest.raises(RemoteError, match="the host that has the lock could not be reached"):
        await release_lock(plan, hosts, OWNER, force=True)


def test_a_controller_of_this_machine_is_proven_gone_by_its_pid_and_start() -> None:
    here = replace(OWNER, pid=os.getpid(), machine=machine(), start=start_of(os.getpid())).to_json()
    assert machine()
    assert not is_proven_gone(here)
    assert is_proven_gone({**here, "start": 1})
    assert not is_proven_gone({**here, "start": 1, "machine": "another"})
    assert not is_proven_gone(OWNER.to_json())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    started = start_of(ended.pid)
    ended.wait()
    assert is_proven_gone({**here, "pid": ended.pid, "start": started})


@pytest.mark.parametrize("since", [1e30, float("nan"), float("inf"), -1e30, "x", {}, None])
def test_a_time_that_is_none_hides_nobody_who_holds_a_lock(since: object) -> None:
    assert describe({**ANN, "since": since}) == "ann@desk (pid 5), since ?, command `sgdeploy up`"
