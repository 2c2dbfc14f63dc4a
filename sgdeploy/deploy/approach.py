"""Before anything is touched: hosts open, what runs is known, the change is shown and agreed to, the locks are held."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AsyncExitStack

from sgdeploy.deploy.events import HostState, Note, Replanned, Tell
from sgdeploy.deploy.fleet import Fleet, open_fleet
from sgdeploy.deploy.lock import Patience, lock_leads, wait_until_free
from sgdeploy.deploy.options import UpOptions
from sgdeploy.deploy.records import Records, follow_records, read_records
from sgdeploy.deploy.task import Task, make_task
from sgdeploy.errors import HostFault, NotRunningError, RemoteError, StateError, UnconfirmedError
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.remote.base import Connector
from sgdeploy.words import plural


class Approach:
    """The way of one command to its deployment.

    Attributes:
        plan: that is wanted; the one on record, where the command is about what runs.
        fleet: open hosts: all of the plan, and those of earlier plans that could be reached.
    """

    def __init__(self, plan: Plan, connector: Connector, tell: Tell, options: UpOptions) -> None:
        """Keep what is wanted; nothing is opened yet."""
        self.plan = plan
        self.fleet = Fleet({})
        self._connector = connector
        self._tell = tell
        self._options = options
        self._away: dict[str, HostFault] = {}

    async def connect(self) -> None:
        """Open all hosts of the plan, or go no further; where an earlier plan decides, all that can be opened.

        Raises:
            RemoteError: a host could not be reached.
        """
        if self._options.recorded:
            await self._open(self.plan.hosts)
        else:
            self.fleet = await open_fleet(self._connector, self.plan.hosts)
            for name in self.fleet.sessions:
                self._tell(HostState(name, "connected"))
        if self._options.also:
            await self._open(self._options.also)

    async def _open(self, hosts: tuple[PlanHost, ...]) -> Collection[str]:
        """Open hosts that may hold records, and give those that cannot be reached."""
        opened = await self.fleet.open_more(self._connector, hosts)
        for name in opened.sessions:
            self._tell(HostState(name, "connected"))
        self._away.update({fault.host: fault for fault in opened.faults})
        return [fault.host for fault in opened.faults]

    async def look(self) -> tuple[Records, Task]:
        """Read what the hosts have on record, and decide what is to be done; nothing is changed.

        Raises:
            RemoteError, UnrecordedError, StateError, UsageError: as ``make_task``.
            NotRunningError: the command is about what runs, and nothing does.
        """
        if not self._options.dry_run:
            await wait_until_free(self.fleet, self.plan.lead_host, Patience(self._options.lock_wait, self._tell))
        await self.fleet.compare_clocks()
        records = await follow_records(self.fleet, self._open)
        if self._options.recorded:
            self.plan = self._on_record(records)
        self._refuse_or_tell_who_is_away()
        return records, self._task(records)

    def _refuse_or_tell_who_is_away(self) -> None:
        needed = [fault for host in self.plan.hosts if (fault := self._away.get(host.host))]
        if needed:
            message = f"{len(needed)} of {plural(len(self.plan.hosts), 'host')} could not be reached"
            raise RemoteError(message, needed, hint="nothing was changed on any host")
        for fault in self._away.values():
            what = f"cannot be asked whether {self.plan.name} still runs there from before: {fault.reason}"
            self._tell(Note(what, "warning", (fault.host,), fault.hint))

    def _on_record(self, records: Records) -> Plan:
        living = {process.host for process in records.living}
        there = {host: found for host, found in records.hosts.items() if found.plan is not None and found.processes}
        plans = [
            found.plan for host, found in there.items() if found.plan is not None and (host in living or not living)
        ]
        if not plans and self._away:
            message = f"nothing of {self.plan.name} runs on the hosts that can be reached"
            raise RemoteError(message, tuple(self._away.values()))
        if not plans:
            raise NotRunningError(f"{self.plan.name}: nothing runs", hint="`sgdeploy up` with its profile starts it")
        plan = plans[0]
        if any(other.digest != plan.digest for other in plans):
            raise StateError(
                f"{plan.name} runs under more than one plan: a change of it was not carried through",
                hint="`sgdeploy up` with its profile carries it through, where no other sgdeploy is at work on it now",
            )
        return plan

    def _task(self, records: Records) -> Task:
        return make_task(self.plan, self._options.only, records, anew=self._options.anew)

    async def agree(self, task: Task) -> None:
        """Show what becomes of what runs, and go on only where nothing that may be serving ends unasked.

        Raises:
            UnconfirmedError: there is nobody to ask, or the answer was no.
        """
        fates = task.fates
        if not fates.runs or fates.same:
            return
        self._tell(Replanned(fates))
        if not fates.disturbs or self._options.yes or self._options.dry_run:
            return
        units = ", ".join(unit.unit for unit in fates.units if unit.disturbs)
        if self._options.confirm is None:
            raise UnconfirmedError(
                f"{units} of {self.plan.name} may be serving and would be stopped; nothing was changed",
                hint="add --yes to do it, or call it on a terminal, which asks",
            )
        if not await self._options.confirm(f"stop what is named above ({units}) and start it as planned?"):
            raise UnconfirmedError("not agreed: nothing was changed on any host")

    async def lock(self, stack: AsyncExitStack, agreed: Task) -> tuple[Records, Task]:
        """Hold all locks until the stack ends, and decide once more: others may have been at work meanwhile.

        Raises:
            LockedError, NodeError: a lock cannot be had.
            StateError: what runs is not what was looked at.
        """
        await lock_leads(stack, self.fleet, [self.plan], self._options.owner)
        records = await read_records(self.fleet)
        others = [plan for plan in records.plans if plan.lead_host.host != self.plan.lead_host.host]
        await lock_leads(stack, self.fleet, others, self._options.owner)
        task = self._task(records)
        if [(unit.unit, unit.fate) for unit in task.fates.units] != [(u.unit, u.fate) for u in agreed.fates.units]:
            raise StateError(
                f"what runs of {self.plan.name} has changed while it was looked at; this command has changed nothing",
                hint="run it again",
            )
        return records, task
