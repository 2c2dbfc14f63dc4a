"""A deployment whose profile has changed since it was started."""

from __future__ import annotations

from typing import Any

import pytest

from sgdeploy.deploy.elsewhere import covers, refuse_if_it_lives
from sgdeploy.deploy.events import Note
from sgdeploy.errors import HostFault, StateError
from sgdeploy.plan.model import Plan
from tests.unit.deploy.fakes import Heard, cluster, make_plan
from tests.unit.deploy.test_down import running


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
