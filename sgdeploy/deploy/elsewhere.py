"""What runs where a profile no longer looks: it may have been changed since its deployment was started.

A plan says on which hosts, over which ways and in which run folders to look for records. One that was started before
the profile changed may have others. The controller remembers the plan that it started last: nothing is forgotten.
"""

from __future__ import annotations

from sgdeploy.deploy.events import Note, Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.records import read_records
from sgdeploy.errors import StateError
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.remote.base import Connector
from sgdeploy.words import name_list, plural


def covers(plan: Plan, other: Plan) -> bool:
    """Tell whether whoever looks where a plan says also looks everywhere where the other one says."""
    return _places(other) <= _places(plan)


def moved(plan: Plan, before: Plan) -> bool:
    """Tell whether a host that both plans have is reached another way, or has another run folder, than before."""
    ways = {place[0]: place for place in _places(plan)}
    return any(place[0] in ways and place != ways[place[0]] for place in _places(before))


def dropped(plan: Plan, before: Plan) -> tuple[PlanHost, ...]:
    """Give the hosts that only the plan before has."""
    names = {host.host for host in plan.hosts}
    return tuple(host for host in before.hosts if host.host not in names)


def _places(plan: Plan) -> set[tuple[object, ...]]:
    return {(host.host, host.connection, host.ssh, host.user, host.port, host.run_dir) for host in plan.hosts}


async def refuse_if_it_lives(before: Plan, connector: Connector, tell: Tell) -> None:
    """Refuse to start a deployment anew while it runs where it was started before.

    Args:
        before: the plan that was started last.
        connector: opens its hosts; closed at the end.
        tell: hears which hosts could not be asked.

    Raises:
        StateError: processes of that plan live.
    """
    try:
        opened = await connector.open_all(before.hosts)
        records = await read_records(Fleet(opened.sessions))
    finally:
        await connector.close_all()
    for fault in (*opened.faults, *records.faults):
        what = f"cannot be asked whether {before.name} still runs there from before: {fault.reason}"
        tell(Note(what, "warning", (fault.host,)))
    living = list(records.living)
    if living:
        where = f"{plural(len(living), 'process')} on {name_list(sorted({process.host for process in living}))}"
        raise StateError(
            f"{before.name} runs as it was planned before the profile changed: {where}",
            hint=f"stop them first with `sgdeploy down {before.name}`",
        )
