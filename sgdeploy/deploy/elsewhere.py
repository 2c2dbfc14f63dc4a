"""What runs where a profile no longer looks: it may have been changed since its deployment was started.

A plan says on which hosts, over which ways and in which run folders to look for records. One that was started before
the profile changed may have others. The controller remembers every host that may still hold records: none is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

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


def dropped(plan: Plan, held: Iterable[PlanHost]) -> tuple[PlanHost, ...]:
    """Give the hosts that may hold records and that a plan has left, each once: as it was reached last."""
    names = {host.host for host in plan.hosts}
    return tuple({host.host: host for host in held if host.host not in names}.values())


def moved(plan: Plan, held: Iterable[PlanHost]) -> tuple[Plan, ...]:
    """Give a plan as its hosts were reached before: other ways, or other run folders, than it has now.

    Args:
        plan: at hand.
        held: hosts that may hold records.

    Returns:
        As many plans as it takes to look at every such place once; each has every host of the plan.
    """
    layers: list[dict[str, PlanHost]] = []
    seen: dict[str, int] = {}
    now = {host.host: host.place for host in plan.hosts}
    dropped_last = {host.host: host.place for host in dropped(plan, held)}
    for host in held:
        if host.place in {now.get(host.host), dropped_last.get(host.host)}:
            continue
        depth = seen.get(host.host, 0)
        seen[host.host] = depth + 1
        layers += [{}] if depth == len(layers) else []
        layers[depth][host.host] = host
    return tuple(_placed(plan, layer) for layer in layers)


def _placed(plan: Plan, layer: dict[str, PlanHost]) -> Plan:
    hosts = {host.host: host for host in plan.hosts} | layer
    return plan.model_copy(update={"hosts": tuple(hosts.values())})


def _places(plan: Plan) -> set[tuple[object, ...]]:
    return {host.place for host in plan.hosts}


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
