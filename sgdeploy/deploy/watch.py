"""Watching every rank: one stream per host flows into the health of the deployment, and out as events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from sgdeploy.deploy.clock import Clock
from sgdeploy.deploy.events import Heartbeat, HostState, ProcessFailed, RankState, Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.engine.milestones import milestone_sets
from sgdeploy.errors import GivenUpError, RemoteError, SgdeployError, StartupError, WaitTimeoutError
from sgdeploy.health.deployment import DeploymentHealth
from sgdeploy.health.states import Observation, Transition
from sgdeploy.health.verdict import Failed, TimedOut, Verdict, Waiting
from sgdeploy.plan.model import Limits, Plan, PlanHost, Process
from sgdeploy.remote.base import Json, LostHostError, NodeError, NodeSession
from sgdeploy.words import plural

INTERVAL = 0.2
"""Seconds between two looks at the processes of a host: what a death costs before it is reported."""

SILENCE = 10.0
"""A node sends a heartbeat every 2 s; five of them missing is a lost host."""

SETTLE = 0.5
"""After the first failure: time for earlier deaths that are reported later, so that the first cause is named."""

CAUSE = 2.0
"""Where all who failed say that they lost a peer: further seconds for that peer, which may die slower than they."""

HEARTBEAT = 30.0
"""Seconds without any change until the operator is told what is being waited for."""

TICK = 0.5
NAMED = 3

Seen: TypeAlias = "tuple[str, Json | LostHostError | NodeError]"


def watch_request(plan: Plan, host: PlanHost, interval: float = INTERVAL) -> Json:
    """Build the arguments of the node operation ``watch`` for the processes of one host."""
    sets = milestone_sets()
    processes = list(plan.on_host(host.host))
    return {
        "run_dir": host.run_dir,
        "ids": None,  # whatever is on record there, also what later stages start
        "milestones": {p.id: sets[p.health.milestones].wire() for p in processes if p.health.milestones},
        "workers": {
            p.id: sets[p.health.milestones].workers
            for p in processes
            if p.health.milestones and sets[p.health.milestones].workers
        },
        "http": {
            p.id: {"address": p.address, "port": p.listens["http"], "path": p.health.http, "headers": {}}
            for p in processes
            if p.health.http is not None and p.listens.get("http") is not None
        },
        "interval": interval,
    }


@dataclass
class _Memory:
    """What has been told already."""

    changed_at: float
    lines: dict[str, str] = field(default_factory=dict)


class Watch:
    """The streams of all hosts, and the health that they add up to."""

    def __init__(self, fleet: Fleet, plan: Plan, tell: Tell) -> None:
        """Take the open hosts and the plan that runs on them."""
        self._fleet = fleet
        self._plan = plan
        self._tell = tell
        self._clock = Clock()
        self._queue: asyncio.Queue[Seen] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        now = self._clock.now()
        self._memory = _Memory(now)
        self.health = DeploymentHealth.begin(plan, now)

    def begin(self) -> None:
        """Begin to watch every host of the plan that is open."""
        for host in self._plan.hosts:
            if self._fleet.has(host.host):
                session = self._fleet.sessions[host.host]
                self._tasks.append(asyncio.create_task(self._pump(session, host)))

    async def end(self) -> None:
        """End all streams; the processes go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pump(self, session: NodeSession, host: PlanHost) -> None:
        try:
            async for event in session.stream("watch", watch_request(self._plan, host), silence=SILENCE):
                self._queue.put_nowait((host.host, event))
            reason = "its node helper stopped watching"
            self._queue.put_nowait((host.host, LostHostError(host.host, reason)))
        except (LostHostError, NodeError) as error:
            self._queue.put_nowait((host.host, error))

    def started(self, processes: Iterable[Process]) -> None:
        """Note that these processes were started; from now on they are waited for."""
        now = self._clock.now()
        self.health, transitions = self.health.started([process.id for process in processes], now)
        self._report(transitions, now)

    async def until_ready(self, processes: Iterable[Process], *, limit: float, stall: float) -> None:
        """Wait until these processes are ready.

        Args:
            processes: who is waited for; a failure of any other process counts as well.
            limit: overall limit, seconds.
            stall: limit without progress on any process, seconds.

        Raises:
            StartupError: a process died or failed; all known faults, the earliest death first.
            RemoteError: a host was lost.
            GivenUpError: hosts are lost because this program stood still (Ctrl-Z).
            WaitTimeoutError: one of the two clocks ran out.
        """
        limits = Limits(timeout=limit, stall=stall, grace=self._plan.limits.grace)
        ids = [process.id for process in processes]
        while True:
            verdict = self.health.verdict(self._clock.now(), limits)
            if self.health.ready(ids) and not isinstance(verdict, Failed):
                return
            if isinstance(verdict, TimedOut):
                hint = "`--timeout` or `health:` in the profile raises the limit; `--keep` leaves it running for a look"
                raise WaitTimeoutError(verdict.message, verdict.missing, hint=hint)
            await self._check(verdict)
            await self._step(TICK)

    async def hold(self, seconds: float) -> None:
        """Look on for some seconds and raise if a process fails meanwhile."""
        await self.guard(asyncio.sleep(seconds))

    async def guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something while watching; a failure of any process ends it at once.

        Raises:
            StartupError, RemoteError: as in ``until_ready``; or whatever the work raises.
        """
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await self._check(self._judge())
                await self._step(TICK, or_until=task)
            await self._check(self._judge())
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def observe_for(self, seconds: float, ids: Collection[str]) -> None:
        """Take in what the hosts say for some seconds, or until each of these processes is decided; never raises.

        One that failed decides nothing about the others: their hosts may just not have spoken yet.
        """
        end = self._clock.now() + seconds
        while self._clock.now() < end and not self.health.decided(ids):
            await self._step(min(TICK, end - self._clock.now()))

    def _judge(self) -> Verdict:
        return self.health.verdict(self._clock.now(), Limits(timeout=float("inf"), stall=float("inf"), grace=0))

    async def _check(self, verdict: Verdict) -> None:
        if not isinstance(verdict, Failed):
            return
        settled = self._clock.now() + SETTLE
        while (left := settled - self._clock.now()) > 0:
            await self._step(left)
        patience = self._clock.now() + CAUSE
        while self.health.only_symptoms and (left := patience - self._clock.now()) > 0:
            await self._step(min(TICK, left))
        final = self._judge()
        failed = final if isinstance(final, Failed) else verdict
        for fault in failed.faults:
            how = (fault.reason, fault.lines, fault.log, fault.seconds_to_report, fault.symptom)
            self._tell(ProcessFailed(fault.process, fault.host, *how))
        self._raise(failed)

    def _raise(self, failed: Failed) -> NoReturn:
        error: SgdeployError
        stood = 0.0 if failed.faults else self._clock.stood_lately
        if stood:
            hosts = plural(len(failed.lost), "host")
            raise GivenUpError(f"this command stood still for {stood:.0f} s, and {hosts} gave it up meanwhile")
        first_lost = bool(failed.lost) and self.health.failures[0].state == "lost"
        if first_lost or not failed.faults:
            count = len(failed.lost)
            error = RemoteError(f"{plural(count, 'host')} lost", failed.lost)
        else:
            lost = "; ".join(f"{fault.host} {fault.reason}" for fault in failed.lost)
            error = StartupError(failed.message, failed.faults, hint=f"also lost: {lost}" if lost else None)
        raise error

    async def _step(self, wait: float, or_until: asyncio.Task[None] | None = None) -> None:
        """Take in what has arrived, waiting at most ``wait`` seconds for the first thing."""
        getter = asyncio.ensure_future(self._queue.get())
        waiting: set[asyncio.Future[Any]] = {getter} if or_until is None else {getter, or_until}
        begin = time.monotonic()
        try:
            await asyncio.wait(waiting, timeout=max(0.0, wait), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            getter.cancel()
            raise
        self._clock.waited(time.monotonic() - begin, meant=max(0.0, wait))
        if getter.done():
            self._take(*getter.result())
        else:
            getter.cancel()
        while not self._queue.empty():
            self._take(*self._queue.get_nowait())
        now = self._clock.now()
        self.health, transitions = self.health.tick(now)
        self._report(transitions, now)
        self._beat(now)

    def _take(self, host: str, seen: Json | LostHostError | NodeError) -> None:
        now = self._clock.now()
        if isinstance(seen, dict):
            rows = [Observation.from_json(self._dated(host, row)) for row in seen.get("observations", ())]
            self.health, transitions = self.health.observe(rows, now)
            self._report(transitions, now)
            self._new_lines((row.process for row in rows), now)
            return
        reason = seen.reason if isinstance(seen, LostHostError) else str(seen)
        self._tell(HostState(host, "lost", reason))
        self.health, transitions = self.health.lose(host, reason, now)
        self._report(transitions, now)

    def _dated(self, host: str, row: Json) -> Json:
        """Count the time since a death by the host's own clock: the way here may take longer than cause to symptom."""
        died_at = row.get("died_at")
        offset = self._fleet.clock_offsets.get(host)
        if died_at is None or offset is None:
            return row
        return {**row, "died_ago": max(0.0, time.time() - (died_at - offset))}

    def _report(self, transitions: Iterable[Transition], now: float) -> None:
        for transition in transitions:
            self._memory.changed_at = now
            self._rank(transition.process, now, changed=True)

    def _new_lines(self, processes: Iterable[str], now: float) -> None:
        for process in processes:
            it = self.health.processes.get(process)
            if it is not None and self._memory.lines.get(process) != it.line:
                self._rank(process, now, changed=False)

    def _rank(self, process: str, now: float, *, changed: bool) -> None:
        it = self.health.processes[process]
        self._memory.lines[process] = it.line
        seconds = now - (it.started_at or now)
        self._tell(RankState(it.process, it.host, it.state, it.phase, seconds, it.line[:200], changed))

    def _beat(self, now: float) -> None:
        if now - self._memory.changed_at < HEARTBEAT:
            return
        self._memory.changed_at = now
        verdict = self._judge()
        missing = verdict.missing if isinstance(verdict, Waiting) else ()
        names = ", ".join(m.process for m in missing[:NAMED]) + (" …" if len(missing) > NAMED else "")
        counts = {str(state): count for state, count in self.health.counts().items()}
        self._tell(Heartbeat(now - self.health.started_at, counts, names))


@asynccontextmanager
async def watching(fleet: Fleet, plan: Plan, tell: Tell) -> AsyncIterator[Watch]:
    """Watch the processes of a plan while the body of the ``async with`` runs."""
    watch = Watch(fleet, plan, tell)
    watch.begin()
    try:
        yield watch
    finally:
        await watch.end()
