"""Taking a failed bring-up back over fake hosts: also where a host was away for a while."""

from __future__ import annotations

import pytest

from sgdeploy.deploy.events import Note
from sgdeploy.deploy.up import up
from sgdeploy.errors import HostFault, PreflightError, RemoteError
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import LostHostError, NodeError
from tests.unit.deploy.fakes import FakeConnector, Heard, cluster, make_plan, up_options

pytestmark = pytest.mark.usefixtures("no_preflight")
KILLED = LostHostError("h2", "the node helper was killed by SIGKILL")


def warnings(heard: Heard) -> list[Note]:
    return [event for event in heard.events if isinstance(event, Note) and event.level == "warning"]


def left(hosts: FakeConnector) -> set[str]:
    """Give the hosts on which anything lives or is on record."""
    return {name for name, node in hosts.nodes.items() if node.living or node.plan}


async def fail(plan: Plan, hosts: FakeConnector, heard: Heard) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        await up(plan, hosts, heard, up_options())
    return caught.value


@pytest.mark.parametrize("when", ["prepare", "start", "watch"])
async def test_a_host_that_comes_back_is_cleaned_as_well(when: str) -> None:
    plan, heard = make_plan(3), Heard()
    hosts = cluster(plan)
    node = hosts.nodes["h2"]
    if when == "watch":
        node.script = [KILLED]
    else:
        node.refuse[when] = KILLED
        node.on_loss = lambda: setattr(node, "plan", plan.to_json())  # it was done, and could not be said any more
    error = await fail(plan, hosts, heard)
    assert [fault.host for fault in error.faults] == ["h2"]
    assert left(hosts) == set()
    assert hosts.opened == ["h1", "h2", "h3", "h2"]
    assert warnings(heard) == []


async def test_a_host_that_stays_away_is_named_with_the_next_step() -> None:
    plan, heard = make_plan(3), Heard()
    hosts = cluster(plan)
    hosts.nodes["h2"].script = [KILLED]
    hosts.nodes["h2"].on_loss = lambda: hosts.down.update({"h2": HostFault("h2", "did not answer within 10 s")})
    error = await fail(plan, hosts, heard)
    assert error.hint == "what is left is named above; `sgdeploy down demo` goes on with it"
    assert [(note.hosts, note.message) for note in warnings(heard)] == [
        (("h2",), "could not be cleaned: did not answer within 10 s")
    ]
    assert left(hosts) == {"h2"}


async def test_what_another_launch_has_started_meanwhile_is_not_touched() -> None:
    plan, heard = make_plan(3), Heard()
    hosts = cluster(plan)
    node = hosts.nodes["h2"]
    node.script = [KILLED]
    node.on_loss = lambda: setattr(node, "launch", {"id": "somebody else's"})
    await fail(plan, hosts, heard)
    assert node.living == {"demo/native/h2"}
    assert left(hosts) == {"h2"}


async def test_the_lock_is_taken_again_where_it_was_lost() -> None:
    plan, heard = make_plan(3), Heard()
    hosts = cluster(plan)
    node = hosts.nodes["h1"]
    node.script = [LostHostError("h1", "the SSH connection broke")]
    held: list[object] = []
    node.on_call = lambda op: held.append(node.locked_by) if op == "clear" else None
    await fail(plan, hosts, heard)
    assert left(hosts) == set()
    assert held
    assert held[0] is not None
    assert node.locked_by is None


async def test_whoever_holds_the_lock_meanwhile_is_left_alone() -> None:
    plan, heard = make_plan(3), Heard()
    hosts = cluster(plan)
    node = hosts.nodes["h1"]
    node.script = [LostHostError("h1", "the SSH connection broke")]
    refusal = NodeError("h1", "locked", "locked", {"owner": {"user": "you", "host": "x", "pid": 1}})
    node.on_loss = lambda: node.refuse.update(lock=refusal)
    await fail(plan, hosts, heard)
    assert node.living == {"demo/native/h1"}
    assert "another sgdeploy works on this deployment: you@x (pid 1)" in warnings(heard)[0].message


async def test_a_refusal_while_writing_leaves_nothing_and_says_so() -> None:
    plan, heard = make_plan(3), Heard()
    hosts = cluster(plan)
    hosts.nodes["h2"].refuse["prepare"] = NodeError("h2", "no-space", "cannot write …", {})
    with pytest.raises(PreflightError) as caught:
        await up(plan, hosts, heard, up_options())
    assert caught.value.hint == "run folders that were written are put away again"
    assert left(hosts) == set()
    assert "audit" not in hosts.nodes["h1"].ops()


async def test_our_own_fault_leaves_nothing_running_either(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan()
    hosts = cluster(plan)

    def broken(*_: object, **_more: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("sgdeploy.deploy.up.Watch.until_ready", broken)
    with pytest.raises(ZeroDivisionError):
        await up(plan, hosts, Heard(), up_options())
    assert left(hosts) == set()
