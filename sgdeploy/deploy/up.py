"""`up`: one plan becomes a serving deployment, or nothing is left behind.

Order: secrets → connect → records → preflight → lock → push → start → watch → completion. Nothing is written on any
host before the preflight of all hosts has passed; records are on disk before the first process starts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from sgdeploy.deploy.buckets import by_buckets, expectation
from sgdeploy.deploy.completion import LONG_PROMPT, PROMPT, NoCompletionError, told
from sgdeploy.deploy.events import HostState, Note, Outcome, Step, Tell
from sgdeploy.deploy.fleet import Fleet, open_fleet
from sgdeploy.deploy.launch import Launch, new_launch_id
from sgdeploy.deploy.lock import lock_leads
from sgdeploy.deploy.options import UpOptions
from sgdeploy.deploy.prepare import check_secrets, clear_stale, preflight, push, require
from sgdeploy.deploy.records import read_records
from sgdeploy.deploy.router import workers_counted
from sgdeploy.deploy.task import make_task
from sgdeploy.deploy.undo import Undo
from sgdeploy.deploy.watch import Watch, watching
from sgdeploy.errors import CancelledRunError, ProcessFault, SgdeployError, StartupError
from sgdeploy.plan.model import Plan, Process
from sgdeploy.plan.selector import selected_units
from sgdeploy.remote.base import Connector
from sgdeploy.remote.waits import to_the_end
from sgdeploy.words import plural

HOLD = 2.0
"""Seconds that ``up --no-wait`` looks on, so that an instant crash is not called a start."""


async def up(plan: Plan, connector: Connector, tell: Tell, options: UpOptions) -> None:
    """Bring a plan up.

    Raises:
        PreflightError, RemoteError, LockedError, StateError: before anything was started.
        StartupError, WaitTimeoutError: after a start; what was started has been stopped unless ``keep``.
        CancelledRunError: interrupted; its hint says what runs and how to go on.
    """
    check_secrets(plan, options.secrets)
    run = _Run(plan, connector, tell, options)
    try:
        await run.to_the_end()
    except asyncio.CancelledError:
        if not run.concluded:  # Else it came while locks were given back: all that was asked for is done.
            raise


class _Run:
    """One bring-up."""

    def __init__(self, plan: Plan, connector: Connector, tell: Tell, options: UpOptions) -> None:
        self.plan = plan
        self.fleet = Fleet({})
        self.tell = tell
        self.options = options
        self._connector = connector
        self._begin = time.monotonic()
        self.concluded = False
        self._number = 0
        self._launched = False
        self._launch_id = new_launch_id()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def _step(self, title: str) -> None:
        self._number += 1
        self.tell(Step(self._number, _steps(self.plan, self.options), title))

    async def to_the_end(self) -> None:
        """Connect, check, start, wait, prove; whatever comes, connections are closed."""
        try:
            await self.connect()
            await self.check()
            if self.options.dry_run:
                self.tell(Outcome("dry-run", "all checks passed; nothing was changed on any host", self.seconds))
                return
            async with AsyncExitStack() as stack:
                await self.bring_up(stack)
        finally:
            await self._connector.close_all()

    async def connect(self) -> None:
        """Open all hosts, or go no further."""
        self._step(f"connect to {plural(len(self.plan.hosts), 'host')}")
        self.fleet = await open_fleet(self._connector, self.plan.hosts)
        for name in self.fleet.sessions:
            self.tell(HostState(name, "connected"))

    async def check(self) -> None:
        """Facts, preflight and records; nothing is changed."""
        self._step("look at the hosts")
        await self.fleet.compare_clocks()
        self.task = make_task(self.plan, self.options.only, await read_records(self.fleet))
        await preflight(self.fleet, self.task.scope, self.tell)

    async def bring_up(self, stack: AsyncExitStack) -> None:
        """Push everything, start stage after stage, prove that it serves; on any failure clean up before raising.

        Locks are held until the stack ends; also those of plans on record that another host leads.
        """
        await lock_leads(stack, self.fleet, [self.plan], self.options.owner)
        records = await read_records(self.fleet)
        others = [plan for plan in records.plans if plan.lead_host.host != self.plan.lead_host.host]
        await lock_leads(stack, self.fleet, others, self.options.owner)
        self.task = make_task(self.plan, self.options.only, records)
        self._launch_id = self.task.launch_id or self._launch_id
        await clear_stale(self.fleet, records, self.task, self.tell)
        self._step("write run folders and scripts")
        async with self._undone_on_failure():
            require(await push(self.fleet, self.task), "writing the run folder", hint=None)
            async with watching(self.fleet, self.plan, self.tell) as watch:
                watch.started(self.task.running)
                secrets = self.options.secrets
                launch = Launch(self.fleet, self.plan, self.options.owner, secrets, self.tell, self._launch_id)
                for units in self.task.stages:
                    await self._stage(launch, watch, self.plan.of_units(units))
                await self._conclude(watch)
            self.concluded = True

    async def _stage(self, launch: Launch, watch: Watch, processes: tuple[Process, ...]) -> None:
        self._step(f"start {plural(len(processes), 'process')}{_which(processes)}")
        if not self._launched:
            self.options.remember()
        self._launched = True
        require(await launch.start(processes), "starting", hint=None)
        watch.started(processes)
        if self.options.wait:
            self._step(f"wait for every rank{_which(processes)}")
            limit = self.options.timeout or self.plan.limits.timeout
            await watch.until_ready(processes, limit=limit, stall=self.plan.limits.stall)

    async def _conclude(self, watch: Watch) -> None:
        status = f"`sgdeploy status {self.plan.name}`"
        if not self.options.wait:
            await watch.hold(HOLD)
            self.tell(Outcome("started", f"every process lives; {status} tells how far it is", self.seconds))
            return
        if not self.task.complete:
            what = ", ".join(self.options.only)
            self.tell(Outcome("started", f"{what} is up; the rest of {self.plan.name} is not: {status}", self.seconds))
            return
        door = self.plan.front_door
        key = None if door.api_key is None else self.options.secrets.get(door.api_key.variable)
        routers = [process for process in self.plan.processes if process.role == "router"]
        for router in routers:
            await watch.guard(workers_counted(self.fleet, router, door, key, self.tell))
        self._step("one completion through the front door")
        await watch.guard(self._prove())
        for router in filter(by_buckets, routers):
            self.tell(Note(expectation(router, door), hosts=(router.host,)))
        self.tell(Outcome("ready", f"{self.plan.name} serves at {door.url}", self.seconds))

    async def _prove(self) -> None:
        door = self.plan.front_door
        prompts = (PROMPT, LONG_PROMPT) if self.plan.topology == "two-bucket-prefill" else (PROMPT,)
        try:
            for prompt in prompts:
                self.tell(await told(self.fleet, self.plan, self.options.secrets, prompt))
        except NoCompletionError as error:
            server = next(p for p in self.plan.on_host(door.host) if p.listens.get("http") == door.port)
            folder = next(host.run_dir for host in self.plan.hosts if host.host == door.host)
            raise StartupError(
                "every rank looks ready, but no completion came back",
                [ProcessFault(server.id, server.host, str(error), log=f"{folder}/logs/{server.log}")],
            ) from error

    @asynccontextmanager
    async def _undone_on_failure(self) -> AsyncIterator[None]:
        """Stop and clear what this run started when the body fails; keep it when the operator interrupts."""
        try:
            yield
        except asyncio.CancelledError as cancelled:
            if not self._launched:
                clean = await to_the_end(self._undo().run(self.task.units))
                hint = self._next_step(clean=clean)
                raise CancelledRunError("interrupted before anything was started", hint=hint) from cancelled
            raise CancelledRunError(
                "interrupted; what was started keeps running and is on record",
                hint=f"`sgdeploy status {self.plan.name}` shows it, `sgdeploy down {self.plan.name}` stops it",
            ) from cancelled
        except Exception as error:
            if self.options.keep:
                self.tell(Note(f"kept as it is; `sgdeploy down {self.plan.name}` stops it", "warning"))
            else:
                # Who interrupts the clean-up wants an end, and gets it; what failed is still to be told.
                with suppress(asyncio.CancelledError):
                    clean = await to_the_end(self._undo().run(self._to_undo(error)))
                    if isinstance(error, SgdeployError):
                        error.hint = error.hint or self._next_step(clean=clean)
            raise

    def _undo(self) -> Undo:
        launch_id = self._launch_id if self._launched else ""
        return Undo(self.fleet, self._connector, self.tell, self.task, self.options.owner, launch_id)

    def _next_step(self, *, clean: bool) -> str | None:
        if not clean:
            return f"what is left is named above; `sgdeploy down {self.plan.name}` goes on with it"
        return None if self._launched else "run folders that were written are put away again"

    def _to_undo(self, error: Exception) -> Collection[str]:
        """Give the units to stop after a failure: a router that fails does not cost the instances their long load."""
        routers = {process.id for process in self.plan.processes if process.role == "router"}
        failed = error.faults if isinstance(error, StartupError) else getattr(error, "missing", ())
        alone = bool(failed) and all(fault.process in routers for fault in failed)
        if not alone or {process.id for process in self.task.processes} <= routers:
            return self.task.units
        message = "only the router is stopped; the instances stay up"
        self.tell(Note(message, "warning", hint="mend it, then `sgdeploy up … --only router` goes on"))
        return {process.unit for process in self.plan.processes if process.role == "router"}


def _steps(plan: Plan, options: UpOptions) -> int:
    """Count the numbered steps: connect, look, write, each stage's start and wait, the completion."""
    if options.dry_run:
        return 2
    units = selected_units(plan, options.only)
    stages = sum(any(unit in units for unit in stage) for stage in plan.stages)
    return 4 + 2 * stages if options.wait else 3 + stages


def _which(processes: tuple[Process, ...]) -> str:
    """Name the units of a stage, except the only one of a native deployment."""
    units = list(dict.fromkeys(process.unit for process in processes))
    return "" if units == ["native"] else f" of {', '.join(units)}"
