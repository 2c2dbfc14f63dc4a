"""`restart`: a part of what runs, from the plan on record."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from sgdeploy.deploy.events import Outcome
from sgdeploy.deploy.up import up
from sgdeploy.errors import NotRunningError, UnsetSecretError, UsageError
from sgdeploy.plan.model import Plan, SecretRef
from tests.unit.deploy.fakes import FakeConnector, Heard, cluster, make_plan, up_options
from tests.unit.deploy.test_parts import hosts_of, started, with_router
from tests.unit.deploy.test_replan import changed
from tests.unit.deploy.test_up_again import CHANGING, outcome, running, steps

pytestmark = pytest.mark.usefixtures("no_preflight", "impatient")


async def restart(plan: Plan, hosts: FakeConnector, *only: str, **options: Any) -> Heard:
    heard = Heard()
    asked = {"only": only, "anew": only, "recorded": True, "yes": True, **options}
    await up(plan, hosts, heard, up_options(**asked))
    return heard


async def test_an_instance_restarts_and_the_rest_goes_on() -> None:
    plan = with_router()
    hosts = await running(plan)
    heard = await restart(plan, hosts, "decode")
    assert started(hosts) == {"h1": [], "h2": ["demo/decode/h2"], "h3": []}
    assert outcome(heard) == Outcome("ready", "demo serves at http://127.0.1.3:30000", outcome(heard).seconds)
    assert steps(heard)[2:5] == [
        "stop 1 process of decode",
        "write run folders and scripts",
        "start 1 process of decode",
    ]


async def test_all_of_it_ends_router_first_and_begins_router_last() -> None:
    plan = with_router()
    hosts = await running(plan)
    order: list[str] = []

    def note(host: str, op: str) -> None:
        if op == "signal":
            order.append(host)

    for name, node in hosts.nodes.items():
        node.on_call = partial(note, name)
    await restart(plan, hosts, "*")
    assert list(dict.fromkeys(order)) == ["h3", "h2", "h1"]
    assert [len(ids) for ids in started(hosts).values()] == [1, 1, 1]


async def test_it_is_what_was_started_that_restarts_and_not_what_the_profile_says_now() -> None:
    plan = with_router()
    hosts = await running(plan)
    await restart(changed(plan, "decode", env={"A": "1"}), hosts, "decode")
    assert hosts.nodes["h2"].plan == plan.to_json()


async def test_beside_a_broken_instance_only_the_part_is_waited_for() -> None:
    plan = with_router()
    hosts = await running(plan)
    hosts.nodes["h1"].living.clear()
    hosts.nodes["h1"].ended = {"demo/prefill/h1": {"code": 1}}
    heard = await restart(plan, hosts, "decode")
    assert outcome(heard).message == "decode is up; the rest of demo is not: `sgdeploy status demo`"


async def test_what_cannot_be_restarted_touches_nothing() -> None:
    plan = make_plan()
    with pytest.raises(NotRunningError):
        await restart(plan, cluster(plan), "native")
    hosts = await running(plan)
    with pytest.raises(UsageError, match="nothing in demo is called `decode`"):
        await restart(plan, hosts, "decode")
    with pytest.raises(UsageError, match="means only a part of native"):
        await restart(plan, hosts, "h2")
    assert not CHANGING & {*hosts.nodes["h1"].ops()}


async def test_only_what_starts_needs_its_secrets() -> None:
    plan = with_router()
    plan = changed(plan, "decode", env={"TOKEN": SecretRef.model_validate({"secret": "env:TOKEN"})})
    hosts = hosts_of(plan)
    await up(plan, hosts, Heard(), up_options(secrets={"TOKEN": "x"}))
    await restart(plan, hosts, "router")
    with pytest.raises(UnsetSecretError, match="1 secret without a value"):
        await restart(plan, hosts, "decode")
