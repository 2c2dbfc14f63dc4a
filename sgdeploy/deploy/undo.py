"""Taking a bring-up back that failed: what it started is stopped, what it wrote is put away, wherever that can be done.

A host that was lost on the way (its helper killed, its connection cut for a while) is opened once more, since what was
started there goes on without us. Whoever was away may find somebody else at work: only what belongs to this very launch
is touched there, and with the lock in hand again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from sgdeploy.deploy.events import Note, Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.lock import locked
from sgdeploy.deploy.options import Owner
from sgdeploy.deploy.parts import Manner, Part, end_parts
from sgdeploy.deploy.records import HostRecords, read_records
from sgdeploy.deploy.stop import Stopped, Stopper
from sgdeploy.deploy.task import Task
from sgdeploy.errors import HostFault, LockedError
from sgdeploy.remote.base import Connector, LostHostError, NodeError
from sgdeploy.remote.waits import together

GRACE = 5.0
"""Seconds for the leaders of a failed bring-up to leave: there is nothing to drain."""


@dataclass(frozen=True)
class Undo:
    """One bring-up to be taken back.

    Attributes:
        fleet: its hosts, some of them perhaps lost.
        connector: opens lost hosts again.
        tell: hears what is done and what is left.
        task: what was to be started.
        owner: who did it.
        launch_id: of what was started, "" where nothing was.
    """

    fleet: Fleet
    connector: Connector
    tell: Tell
    task: Task
    owner: Owner
    launch_id: str

    async def run(self, units: Collection[str]) -> bool:
        """Stop and put away what belongs to some units; tells what is left, and whether nothing is."""
        if self.fleet.taken:  # Somebody else decides now what becomes of it.
            self.tell(Note("what was started is left as it is: the lock is no longer ours", "warning"))
            return False
        records = await read_records(self.fleet)
        away = [name for name, refusal in records.refusals.items() if isinstance(refusal, LostHostError)]
        refused = [fault for fault in records.faults if fault.host not in away]
        present = records.hosts
        if self.task.plan.lead_host.host in away:  # Without its lock, somebody else may have been here since.
            present = {name: there for name, there in present.items() if self._is_ours(there)}
        here, again = await together(self._stop(self.fleet, present, units), self._return_to(away, units))
        faults = [*refused, *here.faults, *again.faults]
        hint = f"sgdeploy down {self.task.plan.name}"
        for fault in faults:
            self.tell(Note(f"could not be cleaned: {fault.reason}", "warning", (fault.host,), hint))
        for item in (*here.leftovers, *again.leftovers):
            self.tell(Note(item.what, "warning", (item.host,), hint))
        clean = not faults and not here.leftovers and not again.leftovers
        if clean and self.launch_id:
            self.tell(Note("what was started is stopped again; the logs stay on the hosts"))
        if self.launch_id and (down := [unit for unit in self.task.replaced if unit in units]):
            way = f"`sgdeploy rollback {self.task.plan.name}` goes back to the plan that was ready last"
            self.tell(Note(f"ran before this change and is down now: {', '.join(down)}", "warning", hint=way))
        return clean

    async def _stop(self, fleet: Fleet, found: Mapping[str, HostRecords], units: Collection[str]) -> Stopped:
        names = {host.host for host in self.task.hosts}
        stopper = Stopper(fleet, self.task.plan, self.tell)
        meant = {name: Part.of(there, self.task.plan, units) for name, there in found.items() if name in names}
        parts = {name: part for name, part in meant.items() if part.ids or part.whole}
        audit = (str(self.owner), "up failed, stopped again") if self.launch_id else None
        return await end_parts(stopper, parts, Manner(GRACE, audit))

    async def _return_to(self, away: Collection[str], units: Collection[str]) -> Stopped:
        """Open lost hosts once more and stop there what this launch started."""
        hosts = [host for host in self.task.hosts if host.host in away]
        if not hosts:
            return Stopped()
        await together(*(self.fleet.sessions[host.host].close() for host in hosts))
        opened = await self.connector.open_all(hosts)
        stopped = Stopped(faults=list(opened.faults))
        if not opened.sessions:
            return stopped
        fleet = Fleet(opened.sessions)
        self.tell(Note("opened once more, to clean up", hosts=tuple(opened.sessions)))
        async with AsyncExitStack() as stack:
            lead = self.task.plan.lead_host
            if fleet.has(lead.host):
                try:
                    await stack.enter_async_context(locked(fleet, lead, self.owner))
                except (LockedError, NodeError, LostHostError) as error:
                    stopped.faults += [HostFault(name, str(error), error.hint) for name in opened.sessions]
                    return stopped
            records = await read_records(fleet)
            stopped.faults += records.faults
            ours = {name: there for name, there in records.hosts.items() if self._is_ours(there)}
            there = await self._stop(fleet, ours, units)
        return stopped + there

    def _is_ours(self, there: HostRecords) -> bool:
        return there.launch is None or there.launch.get("id") == self.launch_id
