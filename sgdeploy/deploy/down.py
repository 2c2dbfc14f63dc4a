"""`down`: what was started is proven gone, and the hosts are as they were before.

The hosts' own records say what runs and how it was planned; the plan at hand only says where to look first. So a
profile that changed since, or another controller, stops exactly what was started.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack

from sgdeploy.deploy.events import HostState, Note, Outcome, Step, Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.lock import Patience, lock_leads
from sgdeploy.deploy.options import DownOptions
from sgdeploy.deploy.parts import Manner, Part, end_parts
from sgdeploy.deploy.records import follow_records
from sgdeploy.deploy.stop import Stopped, Stopper
from sgdeploy.errors import CancelledRunError, HostFault, LeftoverError, RemoteError
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.plan.selector import selected_units
from sgdeploy.remote.base import Connector, LostHostError
from sgdeploy.remote.waits import together
from sgdeploy.words import plural

STEPS = 3


async def down(plan: Plan, connector: Connector, tell: Tell, options: DownOptions) -> None:
    """Take a deployment down and prove it.

    Raises:
        LockedError: somebody else works on it.
        RemoteError: no host at all could be reached.
        LeftoverError: something could not be proven gone; its records are kept.
        CancelledRunError: interrupted; run it again to go on.
    """
    begin = time.monotonic()
    try:
        tell(Step(1, STEPS, f"connect to {plural(len(plan.hosts) + len(options.also), 'host')}"))
        run = _Run(plan, connector, tell, options)
        await run.connect()
        async with AsyncExitStack() as stack:
            found_any = await run.take_down(stack)
        if await run.lost_are_back():
            async with AsyncExitStack() as stack:
                found_any |= await run.take_down(stack)
        run.conclude()
        seconds = time.monotonic() - begin
        if found_any:
            what = " ".join([plan.name, *options.only])
            tell(Outcome("stopped", f"{what} is down; every process is proven gone", seconds))
        else:
            tell(Outcome("nothing", f"{plan.name} is down: nothing runs on its hosts", seconds))
    except asyncio.CancelledError as cancelled:
        hint = f"`sgdeploy down {plan.name}` goes on where this stopped"
        raise CancelledRunError("interrupted while stopping; records are kept", hint=hint) from cancelled
    finally:
        await connector.close_all()


class _Run:
    """One take-down."""

    def __init__(self, plan: Plan, connector: Connector, tell: Tell, options: DownOptions) -> None:
        self._plan = plan
        self._connector = connector
        self._tell = tell
        self._options = options
        self._faults: dict[str, HostFault] = {}
        self._stopped = Stopped()
        self._patience = Patience(options.lock_wait, tell)
        self.fleet = Fleet({})

    async def connect(self) -> None:
        """Open every host that can be opened; the others are listed at the end."""
        await self._open((*self._plan.hosts, *self._options.also))
        if not self.fleet.sessions:
            raise RemoteError("no host could be reached; nothing was stopped", tuple(self._faults.values()))

    async def _open(self, hosts: tuple[PlanHost, ...]) -> Collection[str]:
        opened = await self.fleet.open_more(self._connector, hosts)
        self._faults.update({fault.host: fault for fault in opened.faults})
        for name in opened.sessions:
            self._tell(HostState(name, "connected"))
        return [fault.host for fault in opened.faults]

    async def lost_are_back(self) -> bool:
        """Open hosts that were lost on the way once more; tell whether there is anything to go on with.

        What could not be proven without them is then found out anew, from the records as they are now.
        """
        if self._stopped.proven and not self._faults:
            return False
        answers = await self.fleet.ask("ping", lambda _: {})
        lost = [name for name, refusal in answers.refusals.items() if isinstance(refusal, LostHostError)]
        before = dict(self._faults) | {fault.host: fault for fault in self._stopped.faults}
        await together(*(self.fleet.sessions[name].close() for name in lost))
        away = await self._open(tuple(self.fleet.sessions[name].host for name in lost))
        back = tuple(name for name in lost if name not in away)
        self._faults.update({name: before[name] for name in away if name in before})
        if not back:
            return False
        self._tell(Note("opened once more, to go on", hosts=back))
        self._stopped = Stopped()
        for name in back:
            self._faults.pop(name, None)
        return True

    async def take_down(self, stack: AsyncExitStack) -> bool:
        """Stop every recorded plan on its own hosts, and tell whether anything was on record.

        The locks are held until the stack ends: first that of the plan at hand, then, once they are known, those of
        the plans that run.
        """
        missing = await lock_leads(stack, self.fleet, [self._plan], self._options.owner, self._patience)
        records = await follow_records(self.fleet, self._open)
        others = [plan for plan in records.plans if plan.lead_host.host != self._plan.lead_host.host]
        missing |= await lock_leads(stack, self.fleet, others, self._options.owner, self._patience)
        if missing:
            self._tell(Note("the lock is not held: its host cannot be reached", "warning", tuple(sorted(missing))))
        for fault in records.faults:
            self._faults.setdefault(fault.host, fault)
        plans = records.plans or (self._plan,)
        chosen = {unit for plan in plans for unit in self._units(plan)}
        touched = {
            name: Part.of(found, found.plan or plans[0], chosen)
            for name, found in records.hosts.items()
            if not found.empty
        }
        touched = {n: part for n, part in touched.items() if part.ids or (part.whole and not self._options.only)}
        if not touched:
            return False
        living = sum(len(part.living) for part in touched.values())
        where = plural(len(touched), "host")
        title = f"stop {plural(living, 'process')} on {where}" if living else f"nothing lives any more; tidy {where}"
        self._tell(Step(2, STEPS, title))
        for plan in plans:
            await self._stop_one(plan, {n: part for n, part in touched.items() if part.plan.digest == plan.digest})
        return True

    def _units(self, plan: Plan) -> tuple[str, ...]:
        return selected_units(plan, self._options.only)

    async def _stop_one(self, plan: Plan, parts: Mapping[str, Part]) -> None:
        stopper = Stopper(self.fleet, plan, self._tell)
        grace = plan.limits.grace if self._options.grace is None else self._options.grace
        audit = (str(self._options.owner), " ".join(["down", *self._options.only]))
        how = Manner(grace, audit, now=self._options.now, keep_records=self._options.keep_records)
        self._stopped += await end_parts(stopper, parts, how, then=self._tell_of_proof)

    def _tell_of_proof(self) -> None:
        self._tell(Step(3, STEPS, "prove that processes are gone and ports free, give hugepages back"))

    def conclude(self) -> None:
        """Raise if anything is left or any host could not be asked."""
        faults = {**self._faults, **{fault.host: fault for fault in self._stopped.faults}}
        if not faults and not self._stopped.leftovers:
            return
        where = len({*faults, *(item.host for item in self._stopped.leftovers)})
        raise LeftoverError(
            f"{self._plan.name}: not proven gone on {plural(where, 'host')}; their records are kept",
            self._stopped.leftovers,
            tuple(faults.values()),
            hint=f"mend what is named and run `sgdeploy down {self._plan.name}` again",
        )
