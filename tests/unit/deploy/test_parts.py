"""Parts of a deployment: started beside what runs, stopped without the rest, and a router that fails alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from sgdeploy.deploy.down import down
from sgdeploy.deploy.events import Note, Outcome
from sgdeploy.deploy.up import up
from sgdeploy.errors import StartupError, StateError
from sgdeploy.plan.model import Health, Plan, Process, Worker
from tests.unit.deploy.fakes import FakeConnector, Heard, cluster, dead, down_options, make_plan, up_options

pytestmark = pytest.mark.usefixtures("no_preflight", "impatient")


def with_router() -> Plan:
    """Give prefill on h1, decode on h2, and their router on h3."""
    plan = make_plan(3)
    first, second, third = plan.processes
    prefill = first.model_copy(update={"id": "demo/prefill/h1", "role": "prefill"})
    decode = second.model_copy(
        update={"id": "demo/decode/h2", "role": "decode", "leader": True, "health": Health(http="/health")}
    )
    router = third.model_copy(
        update={
            "id": "demo/router",
            "role": "router",
            "node_rank": None,
            "health": Health(milestones="router", http="/health"),
        }
    )
    workers = (
        Worker(url="http://127.0.1.1:30000", role="prefill", unit="prefill", bootstrap=8998),
        Worker(url="http://127.0.1.2:30000", role="decode", unit="decode"),
    )
    door = plan.front_door.model_copy(update={"host": "h3", "address": "127.0.1.3", "workers": workers})
    stages = (("prefill", "decode"), ("router",))
    changes: dict[str, Any] = {"topology": "pd", "processes": (prefill, decode, router), "front_door": door}
    return plan.model_copy(update={**changes, "stages": stages})


def of_role(plan: Plan, role: str) -> Process:
    return next(process for process in plan.processes if process.role == role)


def hosts_of(plan: Plan) -> FakeConnector:
    hosts = cluster(plan)
    hosts.nodes["h3"].workers = [worker.url for worker in plan.front_door.workers]
    return hosts


def started(hosts: FakeConnector) -> dict[str, list[str]]:
    return {
        name: [process["id"] for op, arguments in node.calls if op == "start" for process in arguments["processes"]]
        for name, node in hosts.nodes.items()
    }


async def test_the_router_starts_after_its_workers_are_ready() -> None:
    plan, heard = with_router(), Heard()
    hosts = hosts_of(plan)
    await up(plan, hosts, heard, up_options())
    titles = [event.to_json()["title"] for event in heard.events if event.kind == "step"]
    assert titles[3:] == [
        "start 2 processes of prefill, decode",
        "wait for every rank of prefill, decode",
        "start 1 process of router",
        "wait for every rank of router",
        "one completion through the front door",
    ]
    assert isinstance(heard.events[-1], Outcome)
    assert heard.events[-1].outcome == "ready"


async def test_a_router_that_fails_leaves_its_workers_up_and_says_how_to_go_on() -> None:
    plan, heard = with_router(), Heard()
    hosts = hosts_of(plan)
    hosts.nodes["h3"].script = [{"observations": [dead(of_role(plan, "router"), code=1)]}]
    with pytest.raises(StartupError):
        await up(plan, hosts, heard, up_options())
    assert hosts.nodes["h1"].living == {"demo/prefill/h1"}
    assert hosts.nodes["h2"].living == {"demo/decode/h2"}
    assert not hosts.nodes["h3"].living
    notes = [event for event in heard.events if isinstance(event, Note)]
    assert any("--only router" in (note.hint or "") for note in notes)

    again = Heard()
    hosts.nodes["h3"].script = hosts_of(plan).nodes["h3"].script
    await up(plan, hosts, again, up_options(only=("router",)))
    assert started(hosts) == {"h1": ["demo/prefill/h1"], "h2": ["demo/decode/h2"], "h3": ["demo/router"] * 2}
    assert isinstance(again.events[-1], Outcome)
    assert again.events[-1].outcome == "ready"


async def test_an_instance_that_dies_while_the_router_starts_takes_everything_down() -> None:
    plan = with_router()
    hosts = hosts_of(plan)
    hosts.nodes["h3"].script = []
    hosts.nodes["h2"].script = [*hosts.nodes["h2"].script, {"observations": [dead(of_role(plan, "decode"))]}]
    with pytest.raises(StartupError):
        await up(plan, hosts, Heard(), up_options())
    assert not any(node.living for node in hosts.nodes.values())


async def test_a_part_that_runs_already_is_not_started_again() -> None:
    plan, heard = with_router(), Heard()
    hosts = hosts_of(plan)
    await up(plan, hosts, Heard(), up_options())
    await up(plan, hosts, heard, up_options(only=("router",)))
    assert started(hosts)["h3"] == ["demo/router"]
    assert isinstance(heard.events[-1], Outcome)
    assert heard.events[-1].message == "demo runs as planned and serves at http://127.0.1.3:30000: nothing to do"


async def test_a_part_of_another_plan_is_not_mixed_in() -> None:
    plan = with_router()
    hosts = hosts_of(plan)
    await up(plan, hosts, Heard(), up_options())
    await down(plan, hosts, Heard(), down_options(only=("router",)))
    other = [p.model_copy(update={"argv": (*p.argv, "--page-size", "64")}) for p in plan.processes]
    changed = plan.model_copy(update={"processes": tuple(other)})
    with pytest.raises(StateError, match="prefill, decode were started from another plan"):
        await up(changed, hosts, Heard(), up_options(only=("router",)))


async def test_down_of_a_part_leaves_the_rest() -> None:
    plan = with_router()
    hosts = hosts_of(plan)
    await up(plan, hosts, Heard(), up_options())
    await down(plan, hosts, Heard(), down_options(only=("router",)))
    assert not hosts.nodes["h3"].living
    assert hosts.nodes["h1"].living
    assert "signal" not in hosts.nodes["h1"].ops()
    assert "restore" not in hosts.nodes["h1"].ops()


async def test_down_takes_the_router_first_and_prefill_last() -> None:
    plan = with_router()
    hosts = hosts_of(plan)
    await up(plan, hosts, Heard(), up_options())
    order: list[str] = []

    def note(host: str, op: str) -> None:
        if op == "signal":
            order.append(host)

    for name, node in hosts.nodes.items():
        node.on_call = partial(note, name)
    await down(plan, hosts, Heard(), down_options())
    assert list(dict.fromkeys(order)) == ["h3", "h2", "h1"]
