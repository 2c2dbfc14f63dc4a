"""`wait`: until what runs is ready, with the same proof as in `up`. No process is touched, and no lock is held."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from sgdeploy.deploy.approach import Approach
from sgdeploy.deploy.diagnose import explain
from sgdeploy.deploy.events import Note, Outcome, Step, Tell
from sgdeploy.deploy.history import History
from sgdeploy.deploy.lock import describe, holder_of
from sgdeploy.deploy.options import UpOptions
from sgdeploy.deploy.prepare import check_secrets
from sgdeploy.deploy.prove import Proof
from sgdeploy.deploy.records import Records, read_records
from sgdeploy.deploy.replan import Replan, replan
from sgdeploy.deploy.watch import Watch, watching
from sgdeploy.errors import CancelledRunError, StartupError, StateError, WaitTimeoutError
from sgdeploy.plan.model import Plan, Process
from sgdeploy.remote.base import Connector
from sgdeploy.remote.waits import stop
from sgdeploy.words import plural

STEPS = 4
ASKED_EVERY = 2.0
"""Seconds between two looks at whether somebody still starts what is missing."""


async def wait(plan: Plan, connector: Connector, tell: Tell, options: UpOptions) -> None:
    """Wait until what is on record is ready; what somebody is just starting is waited for as well.

    Args:
        plan: says where to look.
        connector: opens the hosts.
        tell: hears what happens.
        options: ``timeout`` and ``secrets`` count, and ``recorded`` must be set.

    Raises:
        NotRunningError: nothing runs.
        RemoteError, UnrecordedError: it is not known what runs.
        StateError: a part was never started, and nobody is at work on it.
        StartupError, WaitTimeoutError: as in ``up``; nothing is stopped for it.
        CancelledRunError: interrupted.
    """
    run = _Run(plan, connector, tell, options)
    try:
        await run.to_the_end()
    except asyncio.CancelledError as cancelled:
        name = run.approach.plan.name
        hint = f"`sgdeploy wait {name}` waits on, `sgdeploy down {name}` stops it"
        raise CancelledRunError("stopped waiting; what runs goes on", hint=hint) from cancelled
    finally:
        await connector.close_all()


class _Run:
    """One wait."""

    def __init__(self, plan: Plan, connector: Connector, tell: Tell, options: UpOptions) -> None:
        self.approach = Approach(plan, connector, tell, options)
        self._tell = tell
        self._options = options

    async def to_the_end(self) -> None:
        """Look, wait, prove."""
        begin = time.monotonic()
        approach = self.approach
        self._step(1, f"connect to {plural(len(approach.plan.hosts), 'host')}")
        await approach.connect()
        self._step(2, "look at the hosts")
        records, task = await approach.look()
        plan = approach.plan
        if plan.front_door.api_key is not None:
            check_secrets((plan.front_door.api_key.variable,), self._options.secrets)
        await self._somebody_starts(task.fates)
        try:
            async with watching(approach.fleet, plan, self._tell) as watch:
                watch.started(_on_record(plan, records))
                await self._prove(watch, plan)
        except (StartupError, WaitTimeoutError) as error:
            await explain(error, approach.fleet, plan)
            raise
        history = History(approach.fleet, plan.lead_host)
        await history.ready(plan, self._options.owner, "wait", self._tell)
        self._tell(Outcome("ready", f"{plan.name} serves at {plan.front_door.url}", time.monotonic() - begin))

    async def _prove(self, watch: Watch, plan: Plan) -> None:
        self._step(3, "wait for every rank")
        await self._unless_nobody_starts(self._until_ready(watch, plan))
        proof = Proof(self.approach.fleet, plan, self._options.secrets, self._tell)
        await proof.workers(watch)
        self._step(4, "one completion through the front door")
        await proof.completions(watch)

    def _step(self, number: int, title: str) -> None:
        self._tell(Step(number, STEPS, title))

    async def _until_ready(self, watch: Watch, plan: Plan) -> None:
        limits = plan.limits
        try:
            limit = self._options.timeout or limits.timeout
            await watch.until_ready(plan.processes, limit=limit, stall=limits.stall)
        except WaitTimeoutError as error:
            error.hint = f"nothing was stopped; `sgdeploy status {plan.name}` shows it, `--timeout` raises the limit"
            raise

    async def _unless_nobody_starts(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work, but not longer than it can come to an end."""
        waiting = asyncio.ensure_future(work)
        looking = asyncio.ensure_future(self._until_nobody_starts())
        try:
            await asyncio.wait((waiting, looking), return_when=asyncio.FIRST_COMPLETED)
            if looking.done() and not waiting.done():
                looking.result()
            await waiting
        finally:
            await stop(looking)
            await stop(waiting)

    async def _until_nobody_starts(self) -> None:
        """Come to an end once everything was started.

        Raises:
            StateError: something was not, and nobody will.
        """
        while True:
            records = await read_records(self.approach.fleet)
            fates = replan(self.approach.plan, records)
            if not _never_started(fates):
                return
            await self._somebody_starts(fates, told=True)
            await asyncio.sleep(ASKED_EVERY)

    async def _somebody_starts(self, fates: Replan, *, told: bool = False) -> None:
        missing = _never_started(fates)
        if not missing:
            return
        plan = self.approach.plan
        owner = await holder_of(self.approach.fleet, plan.lead_host)
        units = ", ".join(missing)
        if owner is None:
            verb = "is" if len(missing) == 1 else "are"
            raise StateError(
                f"{units} of {plan.name} {verb} not started, and nobody is at work on it",
                hint=f"`sgdeploy up {plan.name}` goes on with it",
            )
        if not told:
            self._tell(Note(f"{units}: being started by {describe(owner)}"))


def _never_started(fates: Replan) -> list[str]:
    """Give the units of which something was not started, and of which nothing has failed."""
    return [unit.unit for unit in fates.units if unit.fate in {"start", "restart"} and not unit.ended]


def _on_record(plan: Plan, records: Records) -> list[Process]:
    recorded = {process.id for there in records.hosts.values() for process in there.processes}
    return [process for process in plan.processes if process.id in recorded]
