"""What has to end before something new begins: stopped in order, proven gone, its records away."""

from __future__ import annotations

from sgdeploy.deploy.events import Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.options import UpOptions
from sgdeploy.deploy.parts import Manner, end_parts
from sgdeploy.deploy.records import read_records
from sgdeploy.deploy.stop import Stopped, Stopper
from sgdeploy.deploy.task import Task
from sgdeploy.errors import LeftoverError
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.words import plural


async def make_room(fleet: Fleet, task: Task, tell: Tell, options: UpOptions) -> None:
    """Stop the parts of a task that end, each under the plan that it was started from.

    Raises:
        LeftoverError: something could not be proven gone; its records are kept, and nothing may be started beside it.
    """
    plans = {part.plan.digest: part.plan for part in task.parts.values()}
    found = Stopped()
    for digest, plan in plans.items():
        parts = {name: part for name, part in task.parts.items() if part.plan.digest == digest}
        stopper = Stopper(fleet, plan, tell)
        audit = (str(options.owner), f"{options.verb}: stopped {', '.join(sorted(task.fates.going))}")
        found += await end_parts(stopper, parts, Manner(plan.limits.grace, audit))
    if not found.proven:
        raise LeftoverError(
            f"{task.plan.name}: not proven gone on {plural(len(found.hosts), 'host')}; nothing new was started",
            found.leftovers,
            found.faults,
            hint="mend what is named and run the same command again: it goes on where this stopped",
        )


async def left_clean(fleet: Fleet, plan: Plan) -> tuple[PlanHost, ...]:
    """Give the open hosts that a plan does not have any more and that hold nothing: they need not be remembered."""
    planned = {host.host for host in plan.hosts}
    left = {name: session.host for name, session in fleet.sessions.items() if name not in planned}
    records = await read_records(fleet.part(left))
    return tuple(left[name] for name, there in records.hosts.items() if there.empty)
