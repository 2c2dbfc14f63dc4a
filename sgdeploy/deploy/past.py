"""`history` and what `rollback` goes back to: read from the hosts, so from any machine.

What was done stands on the host that led at that time. The lead may have moved since, so all hosts are asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sgdeploy.deploy.history import Entry, History, once_ready, short
from sgdeploy.deploy.records import survey
from sgdeploy.errors import HostFault, RemoteError, StateError
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.remote.base import Connector
from sgdeploy.remote.waits import together
from sgdeploy.words import name_list


@dataclass(frozen=True)
class Past:
    """What the hosts know of a deployment's past.

    Attributes:
        entries: actions, oldest first.
        current: begin of the digest of the plan on record, None where nothing is.
        kept: plans that were ready and are kept, the last one on top.
        away: hosts that could not be asked, and why.
    """

    entries: tuple[Entry, ...]
    current: str | None
    kept: tuple[Plan, ...]
    away: tuple[HostFault, ...] = ()


async def past(plan: Plan, connector: Connector, *, plans: bool = False, also: tuple[PlanHost, ...] = ()) -> Past:
    """Ask the hosts of a plan, and those of the plans on record there.

    Args:
        plan: at hand; it says where to look first.
        connector: opens the hosts; closed at the end.
        plans: read the plans as well, which may be large.
        also: hosts that the plan does not have and that may hold records.

    Raises:
        RemoteError: the host of the first leader cannot be reached.
    """
    try:
        seen = await survey(connector, (*plan.hosts, *also))
        lead = [fault for fault in seen.away if fault.host == plan.lead_host.host]
        if lead:
            raise RemoteError("the host that keeps the history cannot be reached", lead)
        histories = [History(seen.fleet, session.host) for session in seen.fleet.sessions.values()]
        told = await together(*(history.read() for history in histories))
        entries = merged(told)
        keepers = [history for history, said in zip(histories, told, strict=True) if once_ready(said)]
        kept = [await _plan(keepers, digest) for digest in once_ready(entries)] if plans else []
    finally:
        await connector.close_all()
    recorded, plans_there = seen.records.hosts.get(plan.lead_host.host), seen.records.plans
    present = recorded.plan if recorded is not None and recorded.plan is not None else next(iter(plans_there), None)
    current = None if present is None else short(present.digest)
    return Past(entries, current, tuple(each for each in kept if each is not None), seen.away)


def merged(told: Iterable[Sequence[Entry]]) -> tuple[Entry, ...]:
    """Make one history of those of several hosts, oldest first.

    An action stands on each host that it touched, by the clock of that host. It is told once, as the host tells it that
    knows of it most often: one controller may do the same more than once.
    """
    most: dict[tuple[str, str], list[Entry]] = {}
    for said in told:
        own: dict[tuple[str, str], list[Entry]] = {}
        for entry in said:
            own.setdefault((entry.who, entry.what), []).append(entry)
        most.update({action: found for action, found in own.items() if len(found) > len(most.get(action, ()))})
    return tuple(sorted((entry for found in most.values() for entry in found), key=lambda entry: entry.when))


async def _plan(histories: list[History], digest: str) -> Plan | None:
    for history in histories:
        found = await history.plan(digest)
        if found is not None:
            return found
    return None


def earlier(found: Past, name: str, to: str | None = None) -> Plan:
    """Give the plan to go back to: the last one that was ready and is not on record now, or the one that is named.

    Args:
        found: the past.
        name: of the deployment, for the message.
        to: begin of a digest, as ``history`` shows it; None for the last one.

    Raises:
        StateError: there is none.
    """
    wanted = [plan for plan in found.kept if to is None or short(plan.digest).startswith(to.removeprefix("sha256:"))]
    if to is None:
        wanted = [plan for plan in wanted if short(plan.digest) != found.current]
    if wanted and (to is None or len(wanted) == 1):
        return wanted[0]
    names = ", ".join(short(plan.digest) for plan in found.kept)
    what = f"no plan {to} of {name} is kept" if to is not None else f"no plan of {name} but the present one was ready"
    if to is not None and len(wanted) > 1:
        what = f"more than one plan of {name} begins with {to}"
    hint = f"kept: {names}" if names else "only plans that were ready are kept"
    if found.away:
        hint += f"; not asked, since they cannot be reached: {name_list(fault.host for fault in found.away)}"
    raise StateError(what, hint=hint)
