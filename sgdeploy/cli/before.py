"""Where a deployment may hold records from before, as far as this machine knows: places that its plan lacks now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgdeploy.cli.targets import registry
from sgdeploy.deploy import elsewhere
from sgdeploy.errors import StateError
from sgdeploy.remote.connect import connector

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.console.console import Console
    from sgdeploy.deploy.registry import Known
    from sgdeploy.plan.model import Plan, PlanHost

ELSEWHERE = "the profile has changed: it was started last on other hosts or in other run folders"


async def hosts_of_before(desk: Desk, console: Console, plan: Plan) -> tuple[PlanHost, ...]:
    """Give the hosts on which something may run from before, and which a plan does not have any more.

    Raises:
        StateError: it runs in run folders, or was reached in ways, that the plan does not have any more.
    """
    for before in moved_hosts(desk, plan):
        await elsewhere.refuse_if_it_lives(before, connector(), console.tell)
    return left_hosts(desk, plan)


def left_hosts(desk: Desk, plan: Plan) -> tuple[PlanHost, ...]:
    """Give the hosts that may hold records and that a plan does not have any more."""
    return elsewhere.dropped(plan, _held(desk, plan))


def moved_hosts(desk: Desk, plan: Plan) -> tuple[Plan, ...]:
    """Give a plan as its hosts were reached before, or had their run folders; as many as there are such places."""
    return elsewhere.moved(plan, _held(desk, plan))


def looks_elsewhere(desk: Desk, plan: Plan) -> bool:
    """Tell whether whoever names the deployment, instead of its profile, looks where the profile does not any more."""
    known = _started_last(desk, plan)
    return known is not None and not known.away and not elsewhere.covers(plan, known.plan)


def _held(desk: Desk, plan: Plan) -> tuple[PlanHost, ...]:
    known = _started_last(desk, plan)
    return () if known is None else known.hosts


def _started_last(desk: Desk, plan: Plan) -> Known | None:
    try:
        return registry(desk).recall(plan.name)
    except StateError:  # a damaged memory is told to whoever names it; the plan at hand is enough
        return None
