"""Stage after stage: start what a task starts, and wait for all that the next stage needs."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sgdeploy.deploy.events import Note
from sgdeploy.deploy.launch import Launch
from sgdeploy.deploy.options import UpOptions
from sgdeploy.deploy.prepare import require
from sgdeploy.deploy.task import Task
from sgdeploy.deploy.watch import Watch
from sgdeploy.plan.model import Plan, Process
from sgdeploy.plan.selector import matching, selected_units
from sgdeploy.words import name_list, plural

LOOK = 6.0
"""Seconds that hosts are listened to before what runs there is said to be still on its way."""


class Stages:
    """The stages of one task.

    Attributes:
        launched: whether any process may have been started.
        half_started: units whose start is under way and not over.
        were_ready: whether all that ran before was ready when it was looked at.
    """

    def __init__(self, launch: Launch, task: Task, step: Callable[[str], None], options: UpOptions) -> None:
        """Keep what is to be done; nothing is started yet."""
        self.launched = False
        self.half_started: tuple[str, ...] = ()
        self.were_ready = False
        self._launch = launch
        self._task = task
        self._step = step
        self._options = options
        self._begun: set[str] = set()

    @property
    def not_begun(self) -> list[str]:
        """Units that are to be started and were not yet."""
        return [unit for stage in self._task.stages for unit in stage if unit not in self._begun]

    async def run(self, watch: Watch) -> None:
        """Take up what runs, start the rest.

        Raises:
            PreflightError, RemoteError: a host refused to start something, or was lost.
            StartupError, WaitTimeoutError: a process failed, or time ran out.
        """
        await self._adopt(watch)
        for stage, units in zip(self._task.plan.stages, self._task.stages, strict=True):
            if units:
                await self._start(watch, units)
            if self._options.wait:
                await self._wait(watch, needed(self._task, self._options, stage, units))

    async def _adopt(self, watch: Watch) -> None:
        running = self._task.running
        if not running:
            return
        self._options.remember()
        watch.started(running)
        ids = [process.id for process in running]
        await watch.observe_for(LOOK, ids)
        self.were_ready = watch.health.ready(ids)
        if not self.were_ready:
            units = [unit for unit in self._task.fates.of("keep") if not watch.health.ready(_ids(running, unit))]
            verb = "runs as planned and is" if len(units) == 1 else "run as planned and are"
            self._launch.tell(Note(f"{name_list(units)} {verb} not ready yet: taken up as it stands"))

    async def _start(self, watch: Watch, units: tuple[str, ...]) -> None:
        processes = self._task.plan.of_units(units)
        self._step(f"start {plural(len(processes), 'process')}{_which(self._task.plan, units)}")
        if not self.launched:
            self._options.remember()
        self.launched = True
        self.half_started = units
        require(await self._launch.start(processes), "starting", hint=None)
        self.half_started = ()
        self._begun |= {*units}
        watch.started(processes)

    async def _wait(self, watch: Watch, units: tuple[str, ...]) -> None:
        if not units:
            return
        self._step(f"wait for every rank{_which(self._task.plan, units)}")
        limits = self._task.plan.limits
        limit = self._options.timeout or limits.timeout
        await watch.until_ready(self._task.plan.of_units(units), limit=limit, stall=limits.stall)


def needed(task: Task, options: UpOptions, stage: Collection[str], units: Collection[str]) -> tuple[str, ...]:
    """Give the units of a stage that are waited for.

    Args:
        task: what is to be done.
        options: whether only a part was asked for; of the others, those count that something waits for.
        stage: all units of the stage.
        units: those that start.
    """
    asked = {*selected_units(task.plan, options.only)}
    others = {name for process in task.processes for name in process.wait_for}
    kept = {*task.fates.of("keep")} & (asked | others)
    return tuple(unit for unit in stage if unit in units or unit in kept)


def steps(plan: Plan, task: Task | None, options: UpOptions) -> int:
    """Count the numbered steps of a command; before it is known what runs, as if nothing did."""
    if options.dry_run:
        return 2
    if task is None:
        units = {process.unit for process in matching(plan, options.only)}
        stages = sum(any(unit in units for unit in stage) for stage in plan.stages)
        return 4 + 2 * stages if options.wait else 3 + stages
    starts = sum(bool(units) for units in task.stages)
    pairs = zip(plan.stages, task.stages, strict=True)
    waits = sum(bool(needed(task, options, stage, units)) for stage, units in pairs) if options.wait else 0
    return 2 + bool(task.parts) + bool(task.written) + starts + waits + (options.wait and task.complete)


def _ids(processes: Collection[Process], unit: str) -> list[str]:
    return [process.id for process in processes if process.unit == unit]


def _which(plan: Plan, units: Collection[str]) -> str:
    """Name the units of a stage, except the only one of a native deployment."""
    return "" if [*units] == ["native"] and len(plan.stages) == 1 else f" of {', '.join(units)}"
