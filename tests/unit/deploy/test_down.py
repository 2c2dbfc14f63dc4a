"""`down` over fake hosts: order, proof, and what is kept when the proof fails."""

from __future__ import annotations

import pytest

from sgdeploy.deploy.down import down
from sgdeploy.deploy.events import Outcome
from sgdeploy.errors import HostFault, Leftover, LeftoverError, RemoteError
from sgdeploy.plan.model import Plan
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
        "ports",
        "restore",
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


async def test_a_port_that_is_still_held_keeps_the_records() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h1"].listening = [{"address": "0.0.0.0", "port": 30000, "pid": 9, "command": "nginx"}]
    with pytest.raises(LeftoverError) as caught:
        await down(plan, hosts, Heard(), down_options())
    assert caught.value.leftovers == (Leftover("h1", "port 30000 is held by pid 9 (nginx)"),)
    assert hosts.nodes["h1"].plan is not None


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
