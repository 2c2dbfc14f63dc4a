"""`wait`, and what an interrupted `up` leaves to it."""

from __future__ import annotations

import asyncio

import pytest

from sgdeploy.deploy import wait as wait_module
from sgdeploy.deploy.events import Note, Outcome
from sgdeploy.deploy.up import up
from sgdeploy.deploy.wait import wait
from sgdeploy.errors import (
    CancelledRunError,
    HostFault,
    NotRunningError,
    RemoteError,
    StartupError,
    StateError,
    UnsetSecretError,
    WaitTimeoutError,
)
from sgdeploy.plan.model import Plan, SecretRef
from tests.unit.deploy.fakes import FakeConnector, Heard, cluster, dead, make_plan, up_options
from tests.unit.deploy.test_parts import hosts_of, started, with_router
from tests.unit.deploy.test_up_again import CHANGING, running

pytestmark = pytest.mark.usefixtures("no_preflight", "impatient")


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_module, "ASKED_EVERY", 0.02)


async def waited(plan: Plan, hosts: FakeConnector, heard: Heard | None = None, timeout: float | None = None) -> None:
    await wait(plan, hosts, heard or Heard(), up_options(recorded=True, timeout=timeout))


async def test_it_waits_for_what_runs_and_proves_it_and_changes_nothing() -> None:
    plan, heard = make_plan(), Heard()
    hosts = await running(plan)
    await waited(plan, hosts, heard)
    assert isinstance(heard.events[-1], Outcome)
    assert (heard.events[-1].outcome, heard.events[-1].message) == ("ready", "demo serves at http://127.0.1.1:30000")
    for node in hosts.nodes.values():
        assert not CHANGING & {*node.ops()}
    assert "complete" in hosts.nodes["h1"].ops()
    assert all(node.closed for node in hosts.nodes.values())


async def test_what_is_on_record_counts_and_not_the_plan_at_hand() -> None:
    plan = make_plan(3)
    hosts = await running(plan)
    await waited(make_plan(2), hosts)
    assert "watch" in hosts.nodes["h3"].ops()


async def test_nothing_runs() -> None:
    plan = make_plan()
    with pytest.raises(NotRunningError, match="nothing runs") as caught:
        await waited(plan, cluster(plan))
    assert caught.value.exit_code == 9


async def test_a_host_that_is_away_is_named() -> None:
    plan = make_plan()
    hosts = await running(plan)
    hosts.down = {"h2": HostFault("h2", "no route to host")}
    with pytest.raises(RemoteError, match="1 of 2 hosts could not be reached") as caught:
        await waited(plan, hosts)
    assert [fault.host for fault in caught.value.faults] == ["h2"]


async def test_a_rank_that_has_died_is_told_and_nothing_is_stopped() -> None:
    plan = make_plan()
    hosts = await running(plan)
    second = plan.processes[1]
    hosts.nodes["h2"].living.clear()
    hosts.nodes["h2"].ended = {second.id: {"code": 3}}
    hosts.nodes["h2"].begun.set()
    hosts.nodes["h2"].script = [{"observations": [dead(second)]}]
    with pytest.raises(StartupError) as caught:
        await waited(plan, hosts)
    assert [fault.process for fault in caught.value.faults] == [second.id]
    assert hosts.nodes["h1"].living


async def test_time_runs_out_and_nothing_is_stopped() -> None:
    plan = make_plan()
    hosts = await running(plan)
    hosts.nodes["h2"].script = []
    with pytest.raises(WaitTimeoutError) as caught:
        await waited(plan, hosts, timeout=0.2)
    assert "nothing was stopped" in (caught.value.hint or "")
    assert hosts.nodes["h2"].living


async def test_what_was_never_started_is_not_waited_for() -> None:
    plan = with_router()
    hosts = await running(plan)
    hosts.nodes["h3"].living.clear()
    with pytest.raises(StateError, match="router of demo is not started, and nobody is at work on it") as caught:
        await waited(plan, hosts)
    assert caught.value.hint == "`sgdeploy up demo` goes on with it"


async def test_what_somebody_is_about_to_start_is_waited_for() -> None:
    plan, heard = with_router(), Heard()
    hosts = await running(plan)
    router = hosts.nodes["h3"]
    router.living.clear()
    router.begun.clear()
    owner = {"user": "ann", "host": "desk", "pid": 5, "command": "sgdeploy up y.yaml", "since": 0.0}
    hosts.nodes["h1"].locked_by = owner
    task = asyncio.create_task(waited(plan, hosts, heard))
    await asyncio.wait_for(router.watched.wait(), 5)
    router.living.add("demo/router")
    router.begun.set()
    await task
    notes = [event.message for event in heard.events if isinstance(event, Note)]
    assert notes[0].startswith("router: being started by ann@desk (pid 5)")


async def test_somebody_who_gives_up_ends_the_wait() -> None:
    plan = with_router()
    hosts = await running(plan)
    hosts.nodes["h3"].living.clear()
    hosts.nodes["h3"].begun.clear()
    hosts.nodes["h1"].locked_by = {"user": "ann"}
    task = asyncio.create_task(waited(plan, hosts))
    await asyncio.wait_for(hosts.nodes["h3"].watched.wait(), 5)
    hosts.nodes["h1"].locked_by = None
    with pytest.raises(StateError, match="nobody is at work on it"):
        await task


async def test_a_key_that_the_front_door_wants_is_asked_for_first() -> None:
    plan = make_plan()
    door = plan.front_door.model_copy(update={"api_key": SecretRef.model_validate({"secret": "env:KEY"})})
    plan = plan.model_copy(update={"front_door": door})
    hosts = cluster(plan)
    await up(plan, hosts, Heard(), up_options(secrets={"KEY": "x"}))
    with pytest.raises(UnsetSecretError) as caught:
        await waited(plan, hosts)
    assert "KEY is not set" in caught.value.faults[0].reason


async def test_interrupting_a_wait_changes_nothing() -> None:
    plan = make_plan()
    hosts = await running(plan)
    hosts.nodes["h2"].script = []
    task = asyncio.create_task(waited(plan, hosts))
    await asyncio.wait_for(hosts.nodes["h2"].watched.wait(), 5)
    task.cancel()
    with pytest.raises(CancelledRunError, match="what runs goes on"):
        await task
    assert hosts.nodes["h2"].living


# What Ctrl-C does to `up`


async def interrupted_while_starting(plan: Plan, hosts: FakeConnector, host: str) -> str:
    """Interrupt an `up` while a host starts its processes, and give what it says."""
    running: list[asyncio.Task[None]] = []

    def interrupt() -> None:
        running[0].cancel()

    hosts.nodes[host].on_start = interrupt
    running.append(asyncio.create_task(up(plan, hosts, Heard(), up_options())))
    with pytest.raises(CancelledRunError) as caught:
        await running[0]
    return f"{caught.value}; {caught.value.hint}"


async def test_what_is_half_started_is_stopped_again() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    said = await interrupted_while_starting(plan, hosts, "h1")
    assert "interrupted before everything was started; what was is stopped again" in said
    assert not any(node.living for node in hosts.nodes.values())
    assert hosts.nodes["h1"].plan is None
    assert hosts.nodes["h1"].locked_by is None


async def test_what_an_earlier_stage_has_started_stays() -> None:
    plan = with_router()
    hosts = hosts_of(plan)
    said = await interrupted_while_starting(plan, hosts, "h3")
    assert "`sgdeploy up demo` goes on with router" in said
    assert hosts.nodes["h1"].living
    assert not hosts.nodes["h3"].living
    heard = Heard()
    hosts.nodes["h3"].on_start = lambda: None
    await up(plan, hosts, heard, up_options())
    assert started(hosts) == {"h1": ["demo/prefill/h1"], "h2": ["demo/decode/h2"], "h3": ["demo/router"] * 2}
    assert isinstance(heard.events[-1], Outcome)


async def test_what_loads_goes_on_and_wait_takes_over() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    script, hosts.nodes["h2"].script = hosts.nodes["h2"].script, []
    task = asyncio.create_task(up(plan, hosts, Heard(), up_options()))
    await asyncio.wait_for(hosts.nodes["h2"].begun.wait(), 5)
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(CancelledRunError, match="stopped waiting; what was started keeps running") as caught:
        await task
    assert "`sgdeploy wait demo` waits on" in (caught.value.hint or "")
    assert hosts.nodes["h1"].locked_by is None
    hosts.nodes["h2"].script = script
    heard = Heard()
    await waited(plan, hosts, heard)
    assert isinstance(heard.events[-1], Outcome)
