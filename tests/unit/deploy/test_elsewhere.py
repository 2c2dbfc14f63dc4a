"""A deployment whose profile has changed since it was started."""

from __future__ import annotations

from typing import Any

import pytest

from sgdeploy.deploy.down import down
from sgdeploy.deploy.elsewhere import covers, dropped, moved, refuse_if_it_lives
from sgdeploy.deploy.events import Note
from sgdeploy.deploy.status import status
from sgdeploy.deploy.up import up
from sgdeploy.errors import HostFault, LeftoverError, StateError
from sgdeploy.plan.model import Plan
from tests.unit.deploy.fakes import Heard, cluster, down_options, make_plan, up_options
from tests.unit.deploy.test_down import running
from tests.unit.deploy.test_replan import elsewhere as moved_to


def changed(plan: Plan, **changes: Any) -> Plan:
    """Give the same plan with another first host."""
    return plan.model_copy(update={"hosts": (plan.hosts[0].model_copy(update=changes), *plan.hosts[1:])})


def test_more_hosts_cover_fewer_and_not_the_other_way_round() -> None:
    many, few = make_plan(3), make_plan(2)
    assert covers(many, few)
    assert covers(many, many)
    assert not covers(few, many)


@pytest.mark.parametrize("change", [{"run_dir": "/srv/x"}, {"ssh": "x"}, {"user": "x"}, {"port": 2222}, {"host": "x"}])
def test_every_part_of_the_way_counts(change: dict[str, Any]) -> None:
    plan = make_plan(2)
    assert not covers(changed(plan, **change), plan)
    assert not covers(plan, changed(plan, **change))


def test_what_does_not_lead_elsewhere_does_not_count() -> None:
    plan = make_plan(2)
    assert covers(changed(plan, sysfs_root="/x"), plan)


def test_hosts_that_a_plan_has_left_are_asked_once_and_as_they_were_reached_last() -> None:
    plan, before = make_plan(1), make_plan(2)
    left = before.hosts[1]
    held = (*before.hosts, left.model_copy(update={"port": 22}))
    assert dropped(plan, held) == held[-1:]
    (older,) = moved(plan, held)
    assert older.hosts == (plan.hosts[0], left), "the way of before is tried as well"


def test_each_place_that_a_host_had_is_looked_at_once() -> None:
    plan = make_plan(2)
    first = [plan.hosts[0].model_copy(update={"run_dir": folder}) for folder in ("/a", "/b")]
    second = plan.hosts[1].model_copy(update={"user": "x"})
    layers = moved(plan, (*first, *plan.hosts, second))
    assert [layer.hosts for layer in layers] == [(first[0], second), (first[1], plan.hosts[1])]
    assert moved(plan, plan.hosts) == ()


async def test_what_runs_from_before_is_named() -> None:
    plan = make_plan(2)
    hosts = running(plan)
    with pytest.raises(StateError, match=r"2 processes on h\[1-2\]") as caught:
        await refuse_if_it_lives(plan, hosts, Heard())
    assert caught.value.hint == "stop them first with `sgdeploy down demo`"
    assert all(node.closed for node in hosts.nodes.values())


async def test_a_host_of_before_that_is_gone_does_not_hold_a_start_up() -> None:
    plan, heard = make_plan(2), Heard()
    hosts = cluster(plan)
    hosts.down = {"h1": HostFault("h1", "no route to host")}
    await refuse_if_it_lives(plan, hosts, heard)
    message = "cannot be asked whether demo still runs there from before: no route to host"
    assert heard.events == [Note(message, "warning", ("h1",))]


async def test_down_asks_the_hosts_that_the_plan_has_left() -> None:
    plan, before = make_plan(1), make_plan(2)
    hosts = running(before)
    await down(plan, hosts, Heard(), down_options(also=before.hosts[1:]))
    assert not any(node.living for node in hosts.nodes.values())
    assert "clear" in hosts.nodes["h2"].ops()


async def test_nothing_is_proven_gone_while_a_host_that_was_left_cannot_be_asked() -> None:
    plan, before = make_plan(1), make_plan(2)
    hosts = running(plan)
    hosts.down = {"h2": HostFault("h2", "no route to host")}
    with pytest.raises(LeftoverError, match="not proven gone on 1 host") as caught:
        await down(plan, hosts, Heard(), down_options(also=before.hosts[1:]))
    assert [fault.host for fault in caught.value.faults] == ["h2"]
    assert not hosts.nodes["h1"].living, "what can be stopped is"


@pytest.mark.usefixtures("no_preflight", "impatient")
async def test_a_host_that_was_left_is_remembered_until_it_is_clean() -> None:
    before = make_plan(2)
    after = moved_to(before)
    hosts = running(before)
    hosts.nodes |= cluster(after).nodes
    clean: list[str] = []
    hosts.down = {"h2": HostFault("h2", "no route to host")}
    options = up_options(yes=True, also=before.hosts, clean=lambda found: clean.extend(host.host for host in found))
    await up(after, hosts, Heard(), options)
    assert clean == ["h1"]
    assert (hosts.nodes["h1"].living, hosts.nodes["n1"].living) == (set(), {"demo/native/n1"})


async def test_status_names_what_lives_where_the_plan_looks_no_more() -> None:
    before = make_plan(2)
    after = moved_to(before)
    hosts = running(after)
    hosts.nodes |= running(before).nodes
    hosts.down = {"h2": HostFault("h2", "no route to host")}
    found = await status(after, hosts, {}, also=before.hosts)
    assert found.state == "degraded"
    assert [line.partition(";")[0] for line in found.drift] == [
        "h1: 1 process from before lives there, which the plan does not have",
        "h2: cannot be asked whether it still runs there: no route to host",
    ]
