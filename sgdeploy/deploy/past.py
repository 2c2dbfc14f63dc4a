"""`history` and what `rollback` goes back to: read from the hosts of the first leaders, so from any machine."""

from __future__ import annotations

from dataclasses import dataclass

from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.history import Entry, History, once_ready, short
from sgdeploy.deploy.records import read_records
from sgdeploy.errors import RemoteError, StateError
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Connector


@dataclass(frozen=True)
class Past:
    """What the hosts know of a deployment's past.

    Attributes:
        entries: actions, oldest first.
        current: begin of the digest of the plan on record, None where nothing is.
        kept: plans that were ready and are kept, the last one on top.
    """

    entries: tuple[Entry, ...]
    current: str | None
    kept: tuple[Plan, ...]


async def past(plan: Plan, connector: Connector, *, plans: bool = False) -> Past:
    """Ask the host of the first leader, and that of the plan on record there, where it is another one.

    Args:
        plan: at hand; it says where to look first.
        connector: opens the hosts; closed at the end.
        plans: read the plans as well, which may be large.

    Raises:
        RemoteError: the host cannot be reached.
    """
    try:
        opened = await connector.open_all([plan.lead_host])
        fleet = Fleet(opened.sessions)
        if not opened.sessions:
            raise RemoteError("the host that keeps the history cannot be reached", opened.faults)
        records = await read_records(fleet)
        recorded = next(iter(records.plans), None)
        leads = {plan.lead_host.host: plan.lead_host}
        if recorded is not None and recorded.lead_host.host not in leads:
            leads[recorded.lead_host.host] = recorded.lead_host
            more = await connector.open_all([recorded.lead_host])
            fleet.sessions.update(more.sessions)
        histories = [History(fleet, host) for name, host in leads.items() if fleet.has(name)]
        entries = [entry for history in histories for entry in await history.read()]
        entries.sort(key=lambda entry: entry.when)
        kept = [await _plan(histories, digest) for digest in once_ready(entries)] if plans else []
    finally:
        await connector.close_all()
    current = None if recorded is None else short(recorded.digest)
    return Past(tuple(entries), current, tuple(each for each in kept if each is not None))


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
    raise StateError(what, hint=f"kept: {names}" if names else "only plans that were ready are kept")
