"""`up` where something runs already: nothing to do, taken up, replaced, changed after a question."""

from __future__ import annotations

import pytest

from sgdeploy.deploy.events import Note, Outcome, Replanned, Step
from sgdeploy.deploy.up import up
from sgdeploy.errors import HostFault, LeftoverError, StartupError, StateError, UnconfirmedError, WaitTimeoutError
from sgdeploy.plan.model import Plan
from tests.unit.deploy.fakes import FakeConnector, Heard, cluster, dead, make_plan, ready, up_options
from tests.unit.deploy.test_parts import hosts_of, started, with_router
from tests.unit.deploy.test_replan import changed

pytestmark = pytest.mark.usefixtures("no_preflight", "impatient")

CHANGING = {"lock", "prepare", "start", "signal", "clear", "restore", "audit"}


async def running(plan: Plan) -> FakeConnector:
    """Give the hosts of a plan that was brought up."""
    hosts = hosts_of(plan) if any(p.role == "router" for p in plan.processes) else cluster(plan)
    await up(plan, hosts, Heard(), up_options())
    for node in hosts.nodes.values():
        node.calls.clear()
        node.watched.clear()
    return hosts


def outcome(heard: Heard) -> Outcome:
    last = heard.events[-1]
    assert isinstance(last, Outcome)
    return last


def steps(heard: Heard) -> list[str]:
    """Give the titles of the steps, and prove that they were counted right."""
    told = [event for event in heard.events if isinstance(event, Step)]
    assert told[-1].number == told[-1].of, told
    return [step.title for step in told]


async def test_what_runs_as_planned_is_looked_at_and_left_alone() -> None:
    plan, heard = make_plan(), Heard()
    hosts = await running(plan)
    await up(plan, hosts, heard, up_options())
    assert outcome(heard).message == "demo runs as planned and serves at http://127.0.1.1:30000: nothing to do"
    assert CHANGING & {*hosts.nodes["h1"].ops(), *hosts.nodes["h2"].ops()} == {"lock"}
    numbers = [(event.number, event.of) for event in heard.events if isinstance(event, Step)]
    assert numbers == [(1, 6), (2, 6), (5, 6), (6, 6)], "what is spared is passed over, and the count stays"
    await up(plan, hosts, heard, up_options(dry_run=True))
    assert outcome(heard).message == "demo runs as planned, nothing to do; nothing was changed on any host"
    assert "complete" in hosts.nodes["h1"].ops(), "ready is proven, not believed"
    assert steps(heard)[:4] == [
        "connect to 2 hosts",
        "look at the hosts",
        "wait for every rank",
        "one completion through the front door",
    ]


async def test_a_deployment_that_serves_nobody_is_not_called_done() -> None:
    plan = make_plan()
    hosts = await running(plan)
    hosts.nodes["h1"].tokens = 0
    heard = Heard()
    with pytest.raises(StartupError, match="no completion came back"):
        await up(plan, hosts, heard, up_options())
    assert hosts.nodes["h1"].living, "what others started is not stopped for it"
    assert "signal" not in hosts.nodes["h1"].ops()
    assert [e.message for e in heard.events if isinstance(e, Note)] == ["what ran before goes on: native"]


async def test_what_is_on_its_way_is_taken_up() -> None:
    plan, heard = make_plan(), Heard()
    hosts = await running(plan)
    first = ready(plan.processes[1])
    hosts.nodes["h2"].script = [{"observations": [{**first, "milestones": []}]}]
    with pytest.raises(WaitTimeoutError):
        await up(plan, hosts, heard, up_options(timeout=6.5))
    messages = [event.message for event in heard.events if isinstance(event, Note)]
    assert messages[0] == "native runs as planned and is not ready yet: taken up as it stands"
    assert hosts.nodes["h2"].living


async def test_an_instance_that_lost_a_rank_is_replaced_without_a_question() -> None:
    plan, heard = make_plan(3), Heard()
    hosts = await running(plan)
    hosts.nodes["h2"].living.clear()
    hosts.nodes["h2"].ended = {"demo/native/h2": {"signal": 9}}
    await up(plan, hosts, heard, up_options())
    (told,) = [event.fates for event in heard.events if isinstance(event, Replanned)]
    assert told.units[0].reasons == ("native/h2 on h2: killed by SIGKILL (9)",)
    assert outcome(heard).outcome == "ready"
    assert {name: len(ids) for name, ids in started(hosts).items()} == {"h1": 1, "h2": 1, "h3": 1}
    assert steps(heard)[2] == "stop 2 processes of native"


async def test_a_change_is_refused_where_nobody_can_be_asked() -> None:
    plan, heard = with_router(), Heard()
    hosts = await running(plan)
    with pytest.raises(UnconfirmedError, match="router of demo may be serving") as caught:
        await up(changed(plan, "router", env={"A": "1"}), hosts, heard, up_options())
    assert "--yes" in (caught.value.hint or "")
    assert caught.value.exit_code == 8
    assert any(isinstance(event, Replanned) for event in heard.events)
    for node in hosts.nodes.values():
        assert not CHANGING & {*node.ops()}


async def test_a_no_changes_nothing_and_a_yes_only_what_is_named() -> None:
    plan = with_router()
    hosts = await running(plan)
    asked: list[str] = []

    async def answer(question: str) -> bool:
        asked.append(question)
        return len(asked) > 1

    after = changed(plan, "router", env={"A": "1"})
    with pytest.raises(UnconfirmedError, match="not agreed: nothing was changed"):
        await up(after, hosts, Heard(), up_options(confirm=answer))
    heard = Heard()
    await up(after, hosts, heard, up_options(confirm=answer))
    assert asked[0] == "stop what is named above (router) and start it as planned?"
    assert started(hosts) == {"h1": [], "h2": [], "h3": ["demo/router"]}
    assert "signal" not in hosts.nodes["h1"].ops()
    assert steps(heard) == [
        "connect to 3 hosts",
        "look at the hosts",
        "stop 1 process of router",
        "write run folders and scripts",
        "wait for every rank of prefill, decode",
        "start 1 process of router",
        "wait for every rank of router",
        "one completion through the front door",
    ]
    assert hosts.nodes["h1"].plan == after.to_json(), "what runs on is on record under the plan that holds now"


async def test_a_changed_instance_restarts_and_the_router_stays() -> None:
    plan, heard = with_router(), Heard()
    hosts = await running(plan)
    await up(changed(plan, "decode", env={"A": "1"}), hosts, heard, up_options(yes=True))
    assert started(hosts) == {"h1": [], "h2": ["demo/decode/h2"], "h3": []}
    assert outcome(heard).outcome == "ready"


async def test_a_router_that_does_not_take_its_workers_back_is_restarted() -> None:
    plan, heard = with_router(), Heard()
    hosts = await running(plan)
    router = hosts.nodes["h3"]
    router.workers.pop()

    def again() -> None:
        router.workers = [worker.url for worker in plan.front_door.workers]

    router.on_start = again
    await up(changed(plan, "decode", env={"A": "1"}), hosts, heard, up_options(yes=True))
    assert started(hosts) == {"h1": [], "h2": ["demo/decode/h2"], "h3": ["demo/router"]}
    (note,) = [e.message for e in heard.events if isinstance(e, Note) and "router does not take" in e.message]
    assert "not registered" in note
    assert outcome(heard).outcome == "ready"


async def test_limits_are_written_on_record_without_a_question() -> None:
    plan, heard = make_plan(), Heard()
    hosts = await running(plan)
    after = plan.model_copy(update={"limits": plan.limits.model_copy(update={"grace": 9.0})})
    await up(after, hosts, heard, up_options())
    assert not started(hosts)["h1"]
    assert hosts.nodes["h2"].plan == after.to_json()


async def test_a_host_that_is_not_in_the_plan_any_more_is_emptied() -> None:
    before, after = make_plan(3), make_plan(2)
    hosts = await running(before)
    await up(after, hosts, Heard(), up_options(yes=True))
    assert not hosts.nodes["h3"].living
    assert hosts.nodes["h3"].plan is None
    assert hosts.nodes["h1"].plan == after.to_json()


async def test_a_dead_host_that_is_not_in_the_plan_any_more_holds_nothing_up() -> None:
    before, after = make_plan(3), make_plan(2)
    heard = Heard()
    hosts = await running(before)
    hosts.down = {"h3": HostFault("h3", "no route to host")}
    await up(after, hosts, heard, up_options(yes=True))
    assert outcome(heard).outcome == "ready"
    warnings = [e for e in heard.events if isinstance(e, Note) and e.level == "warning"]
    assert [note.hosts for note in warnings] == [("h3",)]


async def test_what_does_not_end_lets_nothing_new_begin() -> None:
    plan = make_plan()
    hosts = await running(plan)
    hosts.nodes["h2"].stubborn = {"demo/native/h2"}
    with pytest.raises(LeftoverError, match="nothing new was started"):
        await up(changed(plan, "native", env={"A": "1"}), hosts, Heard(), up_options(yes=True))
    assert started(hosts) == {"h1": [], "h2": []}
    assert hosts.nodes["h2"].plan == plan.to_json(), "what lives is on record as it was started"


async def test_what_changed_between_the_look_and_the_lock_is_not_touched() -> None:
    plan = make_plan()
    hosts = await running(plan)

    def die(op: str) -> None:
        if op == "lock":
            hosts.nodes["h2"].living.clear()
            hosts.nodes["h2"].ended = {"demo/native/h2": {"signal": 9}}

    hosts.nodes["h1"].on_call = die
    with pytest.raises(StateError, match="has changed while it was looked at"):
        await up(plan, hosts, Heard(), up_options())
    assert hosts.nodes["h1"].living


async def test_dry_run_shows_the_change_and_makes_none() -> None:
    plan, heard = make_plan(), Heard()
    hosts = await running(plan)
    await up(changed(plan, "native", env={"A": "1"}), hosts, heard, up_options(dry_run=True))
    assert any(isinstance(event, Replanned) for event in heard.events)
    assert not CHANGING & {*hosts.nodes["h1"].ops()}


async def test_a_change_that_fails_says_what_is_down_and_the_way_back() -> None:
    for env, said in (({"A": "1"}, ["ran before this change and is down now: native"]), ({}, [])):
        plan, heard = make_plan(), Heard()
        hosts = await running(plan)
        hosts.nodes["h2"].script = [{"observations": [dead(plan.processes[1])]}]
        if not env:  # started anew as it was: there is nothing to go back to
            hosts.nodes["h2"].living.clear()
            hosts.nodes["h2"].ended = {"demo/native/h2": {"signal": 9}}
        with pytest.raises(StartupError):
            await up(changed(plan, "native", env=env), hosts, heard, up_options(yes=True))
        notes = [event for event in heard.events if isinstance(event, Note) and "is down now" in event.message]
        assert [note.message for note in notes] == said
        assert all("`sgdeploy rollback demo`" in (note.hint or "") for note in notes)
