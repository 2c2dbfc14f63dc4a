"""`up`: what runs becomes what a plan says, or nothing new is left behind.

Order: secrets → connect → records → what becomes of each unit → preflight → question → lock → stop what has to end →
push → start → watch → completion. Nothing is written or stopped on any host before the preflight of all hosts has
passed; records are on disk before the first process starts. What runs as planned goes on untouched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from sgdeploy.deploy.approach import Approach
from sgdeploy.deploy.diagnose import explain
from sgdeploy.deploy.events import Note, Outcome, Step, Tell
from sgdeploy.deploy.history import History, doing
from sgdeploy.deploy.launch import Launch, new_launch_id
from sgdeploy.deploy.options import UpOptions
from sgdeploy.deploy.prepare import check_secrets, clear_stale, preflight, push, require
from sgdeploy.deploy.prove import Proof
from sgdeploy.deploy.records import Records, read_records
from sgdeploy.deploy.stages import Stages, steps
from sgdeploy.deploy.swap import left_clean, make_room
from sgdeploy.deploy.task import Task, make_task
from sgdeploy.deploy.undo import Undo
from sgdeploy.deploy.watch import Watch, watching
from sgdeploy.errors import CancelledRunError, GivenUpError, SgdeployError, StartupError
from sgdeploy.plan.model import Plan
from sgdeploy.plan.selector import selected_units
from sgdeploy.remote.base import Connector
from sgdeploy.remote.waits import to_the_end
from sgdeploy.words import name_list, plural

HOLD = 2.0
"""Seconds that ``up --no-wait`` looks on, so that an instant crash is not called a start."""


async def up(plan: Plan, connector: Connector, tell: Tell, options: UpOptions) -> None:
    """Bring a plan up, or make what runs of it into what it says.

    Raises:
        PreflightError, RemoteError, LockedError, StateError, UnconfirmedError: before anything was touched.
        LeftoverError: something that had to end did not; nothing new was started.
        StartupError, WaitTimeoutError: after a start; what was started has been stopped unless ``keep``.
        CancelledRunError: interrupted; its hint says what runs and how to go on.
    """
    if not options.recorded:
        selected_units(plan, options.only)
        check_secrets(plan.secret_names, options.secrets)
    run = _Run(plan, connector, tell, options)
    try:
        await run.to_the_end()
    except asyncio.CancelledError:
        if not run.concluded:  # Else it came while locks were given back: all that was asked for is done.
            raise


class _Run:
    """One bring-up."""

    def __init__(self, plan: Plan, connector: Connector, tell: Tell, options: UpOptions) -> None:
        self.approach = Approach(plan, connector, tell, options)
        self.tell = tell
        self.options = options
        self.task: Task | None = None
        self.concluded = False
        self.connector = connector
        self._begin = time.monotonic()
        self._number = 0
        self._total = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def step(self, title: str) -> None:
        """Tell the next step; where what runs spares some that were counted at first, their numbers are passed over."""
        self._number += 1
        total = steps(self.approach.plan, self.task, self.options)
        self._total = max(self._total, total)
        self.tell(Step(self._number + self._total - total, self._total, title))

    async def to_the_end(self) -> None:
        """Connect, check, start, wait, prove; whatever comes, connections are closed."""
        try:
            self.step(f"connect to {plural(len(self.approach.plan.hosts), 'host')}")
            await self.approach.connect()
            task = await self.check()
            if self.options.dry_run:
                found = (
                    f"{self.approach.plan.name} runs as planned, nothing to do" if task.idle else "all checks passed"
                )
                self.tell(Outcome("dry-run", f"{found}; nothing was changed on any host", self.seconds))
                return
            async with AsyncExitStack() as stack:
                records, self.task = await self.approach.lock(stack, task)
                await self.bring_up(self.task, records)
                self.concluded = True
        finally:
            await self.connector.close_all()

    async def check(self) -> Task:
        """Records, preflight, and the operator's word; nothing is changed."""
        self.step("look at the hosts")
        records, task = await self.approach.look()
        if self.options.recorded:
            check_secrets(task.scope.secret_names, self.options.secrets)
        ending = {name: {*part.living} for name, part in task.parts.items()}
        leaving = {
            name: {pid for process in records.hosts[name].living if process.id in ids for pid in process.pids}
            for name, ids in ending.items()
        }
        await preflight(self.approach.fleet, task.scope, self.tell, leaving)
        await self.approach.agree(task)
        self.task = task
        return task

    async def bring_up(self, task: Task, records: Records) -> None:
        """Do what a task says; a router that does not take its restarted workers back is then restarted as well."""
        attempt = _Attempt(self, task, records)
        try:
            await attempt.run()
        except StartupError as error:
            if not attempt.blames_kept_router(error):
                raise
            reason = error.faults[0].reason
        else:
            return
        what = f"the router does not take its workers back ({reason}): it is restarted as well"
        self.tell(Note(what, "warning", tuple(p.host for p in self.approach.plan.of_units({"router"}))))
        records = await read_records(self.approach.fleet)
        self.task = make_task(self.approach.plan, ("router",), records, anew=("router",))
        await _Attempt(self, self.task, records).run()


class _Attempt:
    """One task, from what has to end to the completion that proves it."""

    def __init__(self, run: _Run, task: Task, records: Records) -> None:
        self.run_of = run
        self.records = records
        self.fleet = run.approach.fleet
        self.plan = run.approach.plan
        self.tell = run.tell
        self.options = run.options
        self.task = task
        self._launch = Launch(
            self.fleet,
            self.plan,
            self.options.owner,
            self.options.secrets,
            self.tell,
            task.launch_id or new_launch_id(),
        )
        self.history = History(self.fleet, self.plan.lead_host)
        self.stages = Stages(self._launch, task, run.step, self.options)

    async def run(self) -> None:
        """Stop, push, start, wait, prove; on any failure clean up before raising."""
        if self.task.parts:
            await self._note_what_is_done()
        await self._make_room()
        async with self._undone_on_failure():
            if self.task.written:
                self.run_of.step("write run folders and scripts")
                require(await push(self.fleet, self.task), "writing the run folder", hint=None)
                if not self.task.parts:
                    await self._note_what_is_done()
            async with watching(self.fleet, self.task.watched, self.tell) as watch:
                await self.stages.run(watch)
                await self._conclude(watch)

    async def _note_what_is_done(self) -> None:
        what = doing(self.options.verb, self.plan, self.task.fates, self.options.why)
        await self.history.note(self.options.owner, what, self.task.written)

    async def _note(self, said: str) -> None:
        """Put how it ended on record, where anything was done."""
        if self.stages.launched or self.task.parts:
            await self.history.note(self.options.owner, f"{self.options.verb}: {said}")

    async def _make_room(self) -> None:
        try:
            if self.task.parts:
                self.options.remember()
                living = sum(len(part.living) for part in self.task.parts.values())
                units = ", ".join(unit for unit in self.task.fates.of("restart", "stop"))
                self.run_of.step(f"stop {plural(living, 'process')} of {units}")
                await make_room(self.fleet, self.task, self.tell, self.options)
                self.records = await read_records(self.fleet)
            await clear_stale(self.fleet, self.records, self.task, self.tell)
            self.options.clean(await left_clean(self.fleet, self.plan))
        except asyncio.CancelledError as cancelled:
            if not self.task.parts:
                raise
            raise CancelledRunError(
                "interrupted while stopping what has to end; nothing new was started, and records are kept",
                hint="the same command goes on where this stopped",
            ) from cancelled

    async def _conclude(self, watch: Watch) -> None:
        name = self.plan.name
        status = f"`sgdeploy status {name}`"
        if not self.options.wait:
            await watch.hold(HOLD)
            self.tell(
                Outcome(
                    "started",
                    f"every process lives; `sgdeploy wait {name}` waits until it is ready",
                    self.run_of.seconds,
                )
            )
            return
        if not self.task.complete:
            what = ", ".join([*self.options.only] or self.task.units) or "what was asked for"
            self.tell(Outcome("started", f"{what} is up; the rest of {name} is not: {status}", self.run_of.seconds))
            return
        proof = Proof(self.fleet, self.plan, self.options.secrets, self.tell)
        await proof.workers(watch)
        self.run_of.step("one completion through the front door")
        await proof.completions(watch)
        await self.history.ready(self.plan, self.options.owner, self.options.verb, self.tell)
        door = f"serves at {self.plan.front_door.url}"
        nothing = self.task.idle and self.stages.were_ready
        text = f"{name} runs as planned and {door}: nothing to do" if nothing else f"{name} {door}"
        self.tell(Outcome("ready", text, self.run_of.seconds))

    def blames_kept_router(self, error: StartupError) -> bool:
        """Tell whether all that failed is a router that went on while workers of its were started anew."""
        routers = {process.id for process in self.task.running if process.role == "router"}
        alive = bool(error.faults) and not any(fault.lines for fault in error.faults)
        return bool(routers and self.task.units) and alive and all(f.process in routers for f in error.faults)

    @asynccontextmanager
    async def _undone_on_failure(self) -> AsyncIterator[None]:
        """Stop and clear what this run started when the body fails; keep it when the operator stops waiting for it."""
        try:
            yield
        except asyncio.CancelledError as cancelled:
            said = await self._interrupted()
            await to_the_end(self._note(str(said)))
            raise said from cancelled
        except GivenUpError as error:
            error.hint = f"what was started keeps running; {self._go_on()}"
            raise
        except Exception as error:
            if isinstance(error, StartupError) and self.blames_kept_router(error):
                raise
            with suppress(asyncio.CancelledError):  # who interrupts here does without the explanation
                await self._note(f"failed: {error}")
                await explain(error, self.fleet, self.plan)
            if self.options.keep:
                self.tell(Note(f"kept as it is; `sgdeploy down {self.plan.name}` stops it", "warning"))
            else:
                # Who interrupts the clean-up wants an end, and gets it; what failed is still to be told.
                with suppress(asyncio.CancelledError):
                    clean = await to_the_end(self._undo().run(self._to_undo(error)))
                    if isinstance(error, SgdeployError):
                        error.hint = error.hint or self._next_step(clean=clean)
                self._say_what_goes_on()
            raise

    async def _interrupted(self) -> CancelledRunError:
        """Take back what is half-started, which can never become ready; what is started whole stays."""
        half = self.stages.half_started or (() if self.stages.launched else self.task.units)
        clean = await to_the_end(self._undo().run(half)) if half else True
        if half and {*half} == self.task.units:
            how = (
                "everything was started; what was is stopped again" if self.stages.launched else "anything was started"
            )
            ended = ", and what had to end is stopped" if self.task.parts else ""
            return CancelledRunError(f"interrupted before {how}{ended}", hint=self._next_step(clean=clean))
        return CancelledRunError("stopped waiting; what was started keeps running and is on record", hint=self._go_on())

    def _go_on(self) -> str:
        """Say how to go on with what was started."""
        name, left = self.plan.name, self.stages.not_begun
        go_on = f"`sgdeploy up {name}` goes on with {name_list(left)}" if left else f"`sgdeploy wait {name}` waits on"
        return f"{go_on}, `sgdeploy status {name}` shows it, `sgdeploy down {name}` stops it"

    def _undo(self) -> Undo:
        launch_id = self._launch.id if self.stages.launched else ""
        return Undo(self.fleet, self.run_of.connector, self.tell, self.task, self.options.owner, launch_id)

    def _next_step(self, *, clean: bool) -> str | None:
        if not clean:
            return f"what is left is named above; `sgdeploy down {self.plan.name}` goes on with it"
        return None if self.stages.launched else "run folders that were written are put away again"

    def _say_what_goes_on(self) -> None:
        kept = self.task.fates.of("keep")
        if kept:
            self.tell(Note(f"what ran before goes on: {', '.join(kept)}", "warning"))

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
