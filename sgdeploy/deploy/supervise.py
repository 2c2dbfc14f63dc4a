"""`watch`: look at what runs, tell what changes, and start units again whose profile asks for it.

It holds no lock while it looks; a restart is an `up` of the units that failed, and takes the lock as any other does.
Where somebody else is at work, it waits until that has ended, and looks anew: a deployment that was taken down is not
brought back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from sgdeploy.deploy.approach import Approach
from sgdeploy.deploy.events import Event, HostState, Note, Outcome, Step, Tell
from sgdeploy.deploy.options import UpOptions
from sgdeploy.deploy.prepare import check_secrets
from sgdeploy.deploy.records import Records
from sgdeploy.deploy.up import up
from sgdeploy.deploy.watch import Watch, watching
from sgdeploy.errors import (
    CancelledRunError,
    LockedError,
    NotRunningError,
    PreflightError,
    ProcessFault,
    RemoteError,
    StartupError,
    WaitTimeoutError,
)
from sgdeploy.health.restarts import Again, GiveUp, Restarts
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Connector, LostHostError, NodeError
from sgdeploy.words import name_list, plural

EVERY = 0.5
"""Seconds between two looks at who is ready."""

RETRY = 10.0
"""Seconds until a host that was lost, or a deployment that somebody else works on, is looked at again."""

Connect = Callable[[], Connector]


async def supervise(plan: Plan, connect: Connect, tell: Tell, options: UpOptions) -> None:
    """Watch until something ends it; it never ends well.

    Args:
        plan: says where to look; what is on record counts.
        connect: makes a connector for each look and each restart.
        tell: hears transitions, failures and restarts.
        options: owner and secrets of the restarts; ``recorded`` must be set.

    Raises:
        NotRunningError: nothing runs, or it was taken down meanwhile.
        StartupError: a unit failed that is not restarted, or not any more; nothing is stopped for it.
        UnrecordedError, StateError: it is not known what runs.
        PreflightError: a secret without which nothing could be restarted has no value here.
        CancelledRunError: interrupted.
    """
    guard = _Guard(plan, connect, tell, options)
    try:
        await guard.run()
    except asyncio.CancelledError as cancelled:
        hint = f"`sgdeploy watch {plan.name}` watches on, `sgdeploy down {plan.name}` stops it"
        raise CancelledRunError("stopped watching; what runs goes on", hint=hint) from cancelled


@dataclass
class _Guard:
    """One watch."""

    plan: Plan
    connect: Connect
    tell: Tell
    options: UpOptions
    restarts: Restarts = field(default_factory=lambda: Restarts({}))
    away: str = ""
    seen: bool = False
    refusal: str = ""
    """Why the hosts refused the last restart, "" where they did not: it may have put away what had ended before."""

    async def run(self) -> None:
        while True:
            await self._round()

    async def _round(self) -> None:
        """Watch until something fails, and mend it; where a host is away, wait a while."""
        try:
            await self._mend(await self._failure())
        except NotRunningError as error:
            if not self.seen:
                raise
            raise self._nothing_left() from error
        except (RemoteError, NodeError, LostHostError) as error:
            await self._wait_for_hosts(error)

    def _nothing_left(self) -> NotRunningError:
        name = self.plan.name
        if not self.refusal:
            return NotRunningError(f"{name} was taken down by somebody else: there is nothing to watch any more")
        message = f"nothing of {name} runs any more, and it could not be started again: {self.refusal}"
        return NotRunningError(message, hint=f"mend it, then `sgdeploy up {name}`")

    async def _failure(self) -> StartupError:
        """Look at what runs until a process of it fails; gives all that failed.

        Raises:
            RemoteError: a host is away.
        """
        connector = self.connect()
        approach = Approach(self.plan, connector, _only_warnings(self.tell), self.options)
        try:
            await approach.connect()
            records, _ = await approach.look()
            self.plan, self.away = approach.plan, ""
            if not self.seen:  # Hours later, when something has failed, nobody may be there to set one.
                guarded = self.plan.of_units({*self.plan.restarts})
                needed = self.plan.model_copy(update={"processes": guarded}).secret_names
                check_secrets(needed, self.options.secrets)
            self.seen = True
            self.restarts = replace(self.restarts, policies=self.plan.restarts)
            async with watching(approach.fleet, self.plan, self.tell) as watch:
                recorded = {process.id for there in records.hosts.values() for process in there.processes}
                watch.started(process for process in self.plan.processes if process.id in recorded)
                await watch.guard(self._note_who_is_ready(watch))
        except StartupError as error:
            return error
        finally:
            await connector.close_all()
        raise AssertionError("who is ready is looked at for ever")

    async def _note_who_is_ready(self, watch: Watch) -> None:
        units = {unit: [p.id for p in self.plan.of_units({unit})] for stage in self.plan.stages for unit in stage}
        told = False
        while True:
            ready = [unit for unit, ids in units.items() if watch.health.ready(ids)]
            self.restarts = self.restarts.ready(ready, time.monotonic())
            if len(ready) == len(units) and not told:
                told = True
                guarded = ", ".join(self.plan.restarts) or "nothing (no profile section has `restart:`)"
                self.tell(Note(f"every rank is ready; restarted on failure: {guarded}"))
            await asyncio.sleep(EVERY)

    async def _mend(self, error: StartupError) -> None:
        """Restart what failed, again and again, until it is ready or nothing is to be done any more."""
        unit_of = {process.id: process.unit for process in self.plan.processes}
        failure: StartupError | None = error
        while failure is not None:
            failed = {unit_of[fault.process] for fault in failure.faults if fault.process in unit_of}
            units = tuple(unit for stage in self.plan.stages for unit in stage if unit in failed)
            self.restarts, action = self.restarts.failed(units, time.monotonic())
            if isinstance(action, GiveUp):
                raise StartupError(
                    f"{action.unit} {action.reason}",
                    failure.faults,
                    hint=f"nothing was stopped: `sgdeploy status {self.plan.name}` shows it, `sgdeploy restart "
                    f"{self.plan.name} {action.unit}` starts it once the cause is mended",
                ) from failure
            failure = await self._again(action, failure)

    async def _again(self, action: Again, failure: StartupError) -> StartupError | None:
        """Restart some units after their pause; gives the failure where they fail again."""
        before = await self._pids(action.units)
        verb = "restarts" if len(action.units) == 1 else "restart"
        what = f"{name_list(action.units)} {verb} in {action.delay:g} s (restart {action.attempt} in a row)"
        self.tell(Note(what, "warning"))
        await asyncio.sleep(action.delay)
        await self._until_nobody_is_at_work()
        # Who hangs is on record as it was, and lives; whoever was started meanwhile by others is another process.
        hangs = bool(before) and await self._pids(action.units) == before
        asked = replace(self.options, only=action.units, anew=action.units if hangs else None, why=str(failure))
        try:
            await up(self.plan, self.connect(), _without_an_end(self.tell), replace(asked, keep=True, yes=True))
            self.refusal = ""
        except StartupError as error:
            return error
        except WaitTimeoutError as error:
            return StartupError(str(error), [ProcessFault(m.process, m.host, str(error)) for m in error.missing])
        except PreflightError as error:
            return self._refused(error, action.units)
        except LockedError:
            await self._until_nobody_is_at_work()
        return None

    def _refused(self, error: PreflightError, units: Collection[str]) -> StartupError:
        """Count a restart that the hosts refused as one that failed: a disk may be full for a while."""
        for fault in error.faults:
            what = f"{name_list(units)} cannot be started: {fault.reason}"
            self.tell(Note(what, "warning", (fault.host,), fault.hint))
        reasons = {fault.host: f"not started: {fault.host}: {fault.reason}" for fault in reversed(error.faults)}
        said = next(iter(reasons.values()), str(error))
        self.refusal = said.removeprefix("not started: ")
        leaders = [self.plan.of_units({unit})[0] for unit in units]
        faults = [ProcessFault(one.id, one.host, reasons.get(one.host, said)) for one in leaders]
        return StartupError(str(error), faults)

    async def _pids(self, units: Collection[str]) -> dict[str, int | None]:
        """Give the processes of some units, where all of each live; nobody where one has ended."""
        records = await self._records()
        meant = {process.id for process in self.plan.of_units(units)}
        rows = [row for there in records.hosts.values() for row in there.processes if row.id in meant]
        whole = {row.id for row in rows} == meant and all(row.alive for row in rows)
        return {row.id: row.pid for row in rows} if whole else {}

    async def _records(self) -> Records:
        connector = self.connect()
        approach = Approach(self.plan, connector, _only_warnings(self.tell), self.options)
        try:
            await approach.connect()
            records, _ = await approach.look()
        finally:
            await connector.close_all()
        return records

    async def _until_nobody_is_at_work(self) -> None:
        told = False
        while await self._locked():
            if not told:
                told = True
                self.tell(Note("somebody else is at work on it: waiting until that has ended"))
            await asyncio.sleep(min(RETRY, EVERY * 4))

    async def _locked(self) -> bool:
        connector = self.connect()
        try:
            opened = await connector.open_all([self.plan.lead_host])
            for session in opened.sessions.values():
                answer = await session.call("lock_owner", {"run_dir": session.host.run_dir})
                return answer.get("owner") is not None
        finally:
            await connector.close_all()
        return False

    async def _wait_for_hosts(self, error: RemoteError | NodeError | LostHostError) -> None:
        if self.away != str(error):
            self.away = str(error)
            names = tuple(fault.host for fault in error.faults) if isinstance(error, RemoteError) else (error.host,)
            self.tell(Note(f"{error}: looked at again every {plural(round(RETRY), 'second')}", "warning", names))
        await asyncio.sleep(RETRY)


def _only_warnings(tell: Tell) -> Tell:
    """Leave out what each look would repeat."""

    def some(event: Event) -> None:
        if not isinstance(event, (Step, HostState)):
            tell(event)

    return some


def _without_an_end(tell: Tell) -> Tell:
    """Tell the outcome of a restart as what it is here: one event among others."""

    def some(event: Event) -> None:
        tell(Note(event.message) if isinstance(event, Outcome) else event)

    return some
