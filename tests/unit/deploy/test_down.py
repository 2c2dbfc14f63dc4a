"""`down` over fake hosts: order, proof, and what is kept when the proof fails."""

from __future__ import annotations

import pytest

from sgdeploy.deploy.down import down
from sgdeploy.deploy.events import Note, Outcome
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.records import read_records
from sgdeploy.deploy.task import make_task
from sgdeploy.errors import HostFault, Leftover, LeftoverError, LockedError, RemoteError
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Json, NodeError
from tests.unit.deploy.fakes import FakeConnector, Heard, cluster, down_options, make_plan


def running(plan: Plan) -> FakeConnector:
    hosts = cluster(plan)
    for process in plan.processes:
        hosts.nodes[process.host].living.add(process.id)
        hosts.nodes[process.host].plan = plan.to_json()
    return hosts


def outcome(heard: Heard) -> str:
    last = heard.events[-1]
    assert isinstance(last, Outcome)
    return last.outcome


async def test_the_leader_is_asked_first_and_followers_only_if_they_stay() -> None:
    plan, heard = make_plan(), Heard()
    hosts = running(plan)
    await down(plan, hosts, heard, down_options())
    signals = {
        name: [(a["scope"], a["signal"]) for op, a in node.calls if op == "signal"]
        for name, node in hosts.nodes.items()
    }
    assert signals == {"h1": [("main", "TERM")], "h2": [("group", "TERM"), ("tree", "KILL")]}
    assert outcome(heard) == "stopped"
    assert [op for op in hosts.nodes["h2"].ops() if op not in {"records", "signal", "await_gone"}] == [
        "about_to_end",
        "restore",
        "ports",
        "audit",
        "clear",
    ]


async def test_a_second_down_says_that_nothing_runs() -> None:
    plan = make_plan()
    hosts = running(plan)
    await down(plan, hosts, Heard(), down_options())
    heard = Heard()
    await down(plan, hosts, heard, down_options())
    assert outcome(heard) == "nothing"


async def test_now_kills_at_once() -> None:
    plan = make_plan()
    hosts = running(plan)
    await down(plan, hosts, Heard(), down_options(now=True))
    assert [a["signal"] for op, a in hosts.nodes["h1"].calls if op == "signal"] == ["KILL"]


async def test_what_survives_is_named_and_its_records_stay() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h2"].stubborn = {"demo/native/h2"}
    with pytest.raises(LeftoverError) as caught:
        await down(plan, hosts, Heard(), down_options(grace=0.0))
    assert caught.value.leftovers == (
        Leftover("h2", "process 7 (sglang) of demo/native/h2 is still there after SIGKILL"),
    )
    assert hosts.nodes["h2"].plan is not None
    assert hosts.nodes["h1"].plan is None


async def test_a_stranger_that_took_a_port_since_is_told_and_holds_nothing_up() -> None:
    plan, heard = make_plan(), Heard()
    hosts = running(plan)
    hosts.nodes["h1"].listening = [{"address": "0.0.0.0", "port": 30000, "pid": 9, "command": "nginx"}]
    await down(plan, hosts, heard, down_options())
    notes = [event for event in heard.events if isinstance(event, Note)]
    assert notes == [Note("port 30000 is held by pid 9 (nginx), which is none of ours", "warning", ("h1",))]
    assert outcome(heard) == "stopped"
    assert hosts.nodes["h1"].plan is None


async def test_a_port_that_is_held_by_we_do_not_know_whom_keeps_the_records() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h1"].listening = [{"address": "0.0.0.0", "port": 30000, "pid": None, "command": None}]
    with pytest.raises(LeftoverError) as caught:
        await down(plan, hosts, Heard(), down_options())
    assert caught.value.leftovers == (Leftover("h1", "port 30000 is held by a process that we may not see"),)
    assert hosts.nodes["h1"].plan is not None


@pytest.mark.parametrize("how", ["records", "plan"])
async def test_what_lives_without_a_record_is_no_success(how: str) -> None:
    """Somebody removed the run folder by hand: nothing is on record, and what it was about lives on."""
    plan = make_plan()
    hosts = running(plan)
    node = hosts.nodes["h2"]
    node.living.clear()
    node.plan = None if how == "records" else node.plan
    node.orphans = [{"pid": 64, "title": "python3 -m sglang"}, {"pid": 65, "title": "sglang::scheduler"}]
    refusal = NodeError("h2", "still-alive", "pid 64 … and no record names it", {"pids": [64]}, hint="kill -KILL 64 65")
    node.refuse["restore"] = refusal
    with pytest.raises(LeftoverError) as caught:
        await down(plan, hosts, Heard(), down_options())
    assert caught.value.faults == (refusal.fault,)
    assert "ports" not in node.ops()
    assert "clear" not in node.ops()
    assert not hosts.nodes["h1"].living


@pytest.mark.parametrize("host", ["h1", "h2"])
async def test_a_plan_on_record_that_cannot_be_read_stops_nobody_from_stopping(host: str) -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes[host].plan = {"version": 9}
    await down(plan, hosts, Heard(), down_options())
    assert not any(node.living for node in hosts.nodes.values())
    assert not any(node.plan for node in hosts.nodes.values())


async def test_an_unreachable_host_is_listed_and_the_others_are_cleaned() -> None:
    plan = make_plan(3)
    hosts = running(plan)
    hosts.down = {"h1": HostFault("h1", "no route to host")}
    with pytest.raises(LeftoverError) as caught:
        await down(plan, hosts, Heard(), down_options(grace=0.0))
    assert [fault.host for fault in caught.value.faults] == ["h1"]
    assert caught.value.exit_code == 5
    assert hosts.nodes["h2"].plan is None
    assert hosts.nodes["h1"].living


async def test_no_host_at_all_is_an_error_of_its_own() -> None:
    plan = make_plan(1)
    hosts = running(plan)
    hosts.down = {"h1": HostFault("h1", "no route to host")}
    with pytest.raises(RemoteError, match="no host could be reached"):
        await down(plan, hosts, Heard(), down_options())


async def test_hosts_that_only_the_records_know_are_stopped_too() -> None:
    before, now = make_plan(3), make_plan(2)
    hosts = running(before)
    heard = Heard()
    await down(now, hosts, heard, down_options())
    assert not any(node.living for node in hosts.nodes.values())
    assert outcome(heard) == "stopped"


def with_lead(plan: Plan, host: str) -> Plan:
    """Give the same plan with another leader."""
    processes = tuple(p.model_copy(update={"leader": p.host == host}) for p in plan.processes)
    door = plan.front_door.model_copy(update={"host": host})
    return plan.model_copy(update={"processes": processes, "front_door": door})


async def test_a_changed_profile_does_not_get_past_the_lock_of_what_runs() -> None:
    """The lock is on the leader's host, and the profile at hand may name another leader than the plan that runs."""
    before = make_plan(3)
    hosts = running(before)
    hosts.nodes["h1"].locked_by = {"user": "you", "host": "there", "pid": 1}
    with pytest.raises(LockedError, match=r"you@there \(pid 1\)"):
        await down(with_lead(before, "h2"), hosts, Heard(), down_options())
    assert all(node.living for node in hosts.nodes.values())
    assert hosts.nodes["h2"].locked_by is None


async def test_a_lead_host_that_cannot_be_reached_is_said_to_hold_no_lock() -> None:
    before, heard = make_plan(3), Heard()
    hosts = running(before)
    hosts.down = {"h1": HostFault("h1", "no route to host")}
    with pytest.raises(LeftoverError):
        await down(with_lead(before, "h2"), hosts, heard, down_options())
    assert Note("the lock is not held: its host cannot be reached", "warning", ("h1",)) in heard.events
    assert not hosts.nodes["h2"].living


@pytest.mark.parametrize("launch", [{}, {"id": 5}, {"wall": 1.0}])
async def test_a_launch_without_its_id_keeps_nobody_from_looking_or_stopping(launch: Json) -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h1"].launch = {"odd": True, **launch}
    records = await read_records(Fleet(dict(hosts.nodes)))
    assert records.hosts["h1"].launch is None
    assert records.hosts["h1"].damaged == ("launch.json is damaged: it lacks the id of the launch",)
    make_task(plan, (), records)
    await down(plan, hosts, Heard(), down_options())
    assert not hosts.nodes["h1"].living
