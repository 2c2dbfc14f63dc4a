"""The health of a deployment: all its processes, the two clocks, and the verdict. Pure; times are handed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sgdeploy.engine.milestones import milestone_sets
from sgdeploy.errors import HostFault, Missing, ProcessFault
from sgdeploy.health.machine import Change, ProcessHealth
from sgdeploy.health.states import Observation, State, Transition
from sgdeploy.health.verdict import Failed, Ready, TimedOut, Verdict, Waiting
from sgdeploy.plan.model import Limits, Plan
from sgdeploy.words import plural

_BAD: tuple[State, ...] = ("failed", "lost")


@dataclass(frozen=True)
class DeploymentHealth:
    """All processes of a plan by id, in plan order. Immutable.

    Attributes:
        processes: what is known of each.
        started_at: when bring-up began; the overall clock counts from here.
        progress_at: when any process last moved on; the stall clock counts from here.
    """

    processes: Mapping[str, ProcessHealth]
    started_at: float
    progress_at: float

    @classmethod
    def begin(cls, plan: Plan, now: float) -> DeploymentHealth:
        """Take every process of the plan as planned and start both clocks.

        Raises:
            KeyError: the plan names a set of milestones that does not exist.
        """
        sets, folders = milestone_sets(), {host.host: host.run_dir for host in plan.hosts}
        processes = {
            process.id: ProcessHealth(
                process=process.id,
                host=process.host,
                check=process.health,
                milestones=sets[process.health.milestones] if process.health.milestones else None,
                log=f"{folders[process.host]}/logs/{process.log}",
            )
            for process in plan.processes
        }
        return cls(processes, now, now)

    def started(self, ids: Collection[str], now: float) -> tuple[DeploymentHealth, list[Transition]]:
        """Note that these processes were started."""
        return self._each(ids, lambda it: it.started(now), now)

    def observe(self, rows: Iterable[Observation], now: float) -> tuple[DeploymentHealth, list[Transition]]:
        """Take in what a node saw; rows about processes that are not in the plan are passed over."""
        seen = {row.process: row for row in rows if row.process in self.processes}
        return self._each(seen, lambda it: it.observe(seen[it.process], now), now)

    def lose(self, host: str, reason: str, now: float) -> tuple[DeploymentHealth, list[Transition]]:
        """Note that a host does not answer any more."""
        ids = [it.process for it in self.processes.values() if it.host == host]
        return self._each(ids, lambda it: it.lose(reason, now), now)

    def tick(self, now: float) -> tuple[DeploymentHealth, list[Transition]]:
        """Let time pass; call it at least every few seconds, also when nothing is observed."""
        return self._each(self.processes, lambda it: it.tick(now), now)

    def counts(self) -> dict[State, int]:
        """Count processes by state; states that nobody is in are left out."""
        return dict(Counter(it.state for it in self.processes.values()))

    @property
    def all_ready(self) -> bool:
        """Whether every process is ready (or did its work and ended as planned)."""
        return self.ready(self.processes)

    def ready(self, ids: Collection[str]) -> bool:
        """Tell whether all of these processes are ready (a stage, or an instance)."""
        return all(self._done(self.processes[name]) for name in ids)

    def decided(self, ids: Collection[str]) -> bool:
        """Tell whether none of these processes is still on its way: each is ready, or will not be."""
        return all(self.processes[name].decided for name in ids)

    @property
    def failures(self) -> tuple[ProcessHealth, ...]:
        """Processes that failed or were lost, the first cause on top.

        Who lost a peer by its own log stands behind who did not; among equals the earliest death comes first.
        """
        bad = [it for it in self.processes.values() if it.state in _BAD]
        return tuple(sorted(bad, key=lambda it: (it.lost_a_peer, it.died_at or 0.0)))

    @property
    def only_symptoms(self) -> bool:
        """Whether all that failed say that they lost another process, and none is known that could be it."""
        return bool(self.failures) and all(it.lost_a_peer and it.state == "failed" for it in self.failures)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Who is not ready, in plan order."""
        return tuple(
            Missing(it.process, it.host, it.phase, it.line) for it in self.processes.values() if not self._done(it)
        )

    def verdict(self, now: float, limits: Limits) -> Verdict:
        """Judge the deployment; a failure beats readiness, readiness beats the clocks."""
        if self.failures:
            return self._failed(now)
        if self.all_ready:
            return Ready()
        missing = self.missing
        short = f"{len(missing)} of {plural(len(self.processes), 'process')} not ready"
        if now - self.started_at >= limits.timeout:
            message = f"the limit of {_seconds(limits.timeout)} ran out: {short}"
            return TimedOut("overall", message, self._slowest_first())
        if now - self.progress_at >= limits.stall:
            message = f"no process made any progress for {_seconds(now - self.progress_at)}: {short}"
            return TimedOut("stall", message, self._slowest_first())
        return Waiting(missing)

    def _slowest_first(self) -> tuple[Missing, ...]:
        late = sorted(
            (it for it in self.processes.values() if not self._done(it)), key=lambda it: it.progress_at or 0.0
        )
        return tuple(Missing(it.process, it.host, it.phase, it.line) for it in late)

    def _failed(self, now: float) -> Failed:
        faults = tuple(
            ProcessFault(it.process, it.host, it.reason, it.tail, it.log, _since(it.died_at, now), it.lost_a_peer)
            for it in self.failures
            if it.state == "failed"
        )
        lost = {it.host: HostFault(it.host, it.reason) for it in self.failures if it.state == "lost"}
        first = self.failures[0]
        others = len(self.failures) - 1
        more = f" (and {others} more)" if others else ""
        return Failed(f"{first.process}: {first.reason}{more}", faults, tuple(lost.values()))

    def _each(
        self, ids: Collection[str], step: Callable[[ProcessHealth], Change], now: float
    ) -> tuple[DeploymentHealth, list[Transition]]:
        changes = {name: step(self.processes[name]) for name in ids}
        progress = any(change.progress for change in changes.values())
        processes = {**self.processes, **{name: change.health for name, change in changes.items()}}
        after = replace(self, processes=processes, progress_at=now if progress else self.progress_at)
        return after, [told for change in changes.values() for told in change.transitions]

    @staticmethod
    def _done(it: ProcessHealth) -> bool:
        return it.state == "ready" or (it.state == "stopped" and not it.check.alive)


def _since(died_at: float | None, now: float) -> float | None:
    return None if died_at is None else max(0.0, now - died_at)


def _seconds(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") + " s"
