"""What a running command looks like at one moment: the latest state of every rank and host, kept from events.

Pure: "now" is handed in, nothing is printed here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

from sgdeploy.console.text import below
from sgdeploy.deploy.events import (
    Event,
    Heartbeat,
    HostState,
    Outcome,
    ProcessFailed,
    RankState,
    Replanned,
    State,
    Step,
)

if TYPE_CHECKING:
    from sgdeploy.deploy.replan import Replan
    from sgdeploy.plan.model import Plan

STATES: tuple[State, ...] = get_args(State)
"""All states in the order in which a process walks through them."""

_MOVING = frozenset({"starting", "loading", "warming"})

_FATES = {
    "keep": "goes on",
    "restart": "is to restart",
    "stop": "is to stop",
    "start": "is to start",
    "leave": "is left as it is",
}
"""What becomes of a unit that lives."""


@dataclass(frozen=True)
class Rank:
    """One row: a process and the last that was heard of it.

    Attributes:
        process: id in the plan.
        host: inventory name.
        order: place in the plan.
        state: where it stands.
        phase: last milestone in words, or "".
        seconds: since its start, as of ``heard``.
        heard: when that was, on the console's clock.
        line: last log line.
    """

    process: str
    host: str
    order: int
    state: State = "planned"
    phase: str = ""
    seconds: float = 0.0
    heard: float = 0.0
    line: str = ""

    @property
    def label(self) -> str:
        """What its id adds to its host: ``native/r07``."""
        return below(self.process, self.host)

    def age(self, now: float) -> float:
        """Seconds since its start; the clock stands still once it is ready, failed, lost or stopped."""
        return self.seconds + (max(now - self.heard, 0.0) if self.state in _MOVING else 0.0)


class Board:
    """The latest of everything, fed by events in their order.

    Attributes:
        ranks: process id → what is known of it, in plan order.
        hosts: host → its own state, "" where nothing was heard.
        title: the step that is going on, then the outcome.
        waiting: what is being waited for.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.ranks: dict[str, Rank] = {}
        self.hosts: dict[str, str] = {}
        self.title = ""
        self.waiting = ""

    def expect(self, plan: Plan, *, ranks: bool) -> None:
        """Add a row for every host of the plan, and one for every process where ranks are of interest."""
        for host in plan.hosts:
            self.hosts.setdefault(host.host, "")
        for process in plan.processes if ranks else ():
            self._rank(process.id, process.host)

    def hear(self, event: Event, now: float) -> None:
        """Take one event in."""
        match event:
            case Step(number=number, of=of, title=title):
                self.title, self.waiting = f"[{number}/{of}] {title}", ""
            case HostState(host=host, state=state):
                self.hosts[host] = state
                if state == "stopped":
                    self._stop(host, now)
            case RankState():
                rank = self._rank(event.process, event.host)
                self.ranks[event.process] = replace(
                    rank,
                    state=event.state,
                    phase=event.phase,
                    seconds=event.seconds,
                    heard=now,
                    line=event.line or rank.line,
                )
            case Replanned(fates=fates):
                self._what_runs(fates)
            case ProcessFailed():
                self._fail(event, now)
            case Heartbeat(waiting_for=waiting_for):
                self.waiting = waiting_for
            case Outcome(outcome=outcome):
                self.title, self.waiting = outcome, ""
            case _:
                pass

    def _what_runs(self, fates: Replan) -> None:
        """Say of ranks that live and were not looked at yet that they do: their rows stand around a question."""
        for unit in fates.units:
            runs = "runs" if unit.whole else "runs in part"
            for process in fates.plan.of_units({unit.unit}) if unit.living else ():
                rank = self._rank(process.id, process.host)
                self.ranks[process.id] = replace(rank, phase=f"{runs}, {_FATES[unit.fate]}")

    def _stop(self, host: str, now: float) -> None:
        """A host that is proven clean has no living rank, whatever was heard of them before; failures stay in view."""
        for rank in self.ranks.values():
            if rank.host == host and rank.state not in {"failed", "planned"}:
                self.ranks[rank.process] = replace(rank, state="stopped", seconds=rank.age(now), heard=now)

    def _fail(self, event: ProcessFailed, now: float) -> None:
        rank = self._rank(event.process, event.host)
        line = event.lines[-1] if event.lines else rank.line
        self.ranks[event.process] = replace(
            rank, state="failed", phase=event.reason, seconds=rank.age(now), heard=now, line=line
        )

    def _rank(self, process: str, host: str) -> Rank:
        self.hosts.setdefault(host, "")
        return self.ranks.setdefault(process, Rank(process, host, len(self.ranks)))

    def counts(self, host: str | None = None) -> dict[State, int]:
        """Count ranks by state, in the order of states, zeros left out; of one host or of all."""
        found = Counter(rank.state for rank in self.ranks.values() if host in {None, rank.host})
        return {state: found[state] for state in STATES if found[state]}

    def wellness(self, host: str) -> int:
        """Tell how well a host is: 0 with a failed or lost rank, 1 with one that is not ready yet, 2 else."""
        states = set(self.counts(host))
        return 0 if states & {"failed", "lost"} else 1 if states - {"ready", "stopped"} else 2

    def laggards(self, most: int) -> list[Rank]:
        """Give the ranks worth looking at: failed and lost ones first, then the least advanced, oldest news first."""
        urgency = {"failed": -2, "lost": -1}
        rows = [rank for rank in self.ranks.values() if rank.state not in {"ready", "stopped"}]
        rows.sort(key=lambda rank: (urgency.get(rank.state, STATES.index(rank.state)), rank.heard, rank.order))
        return rows[:most]
