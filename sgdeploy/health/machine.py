"""The state machine of one process: observations and "now" go in, states and transitions come out. Pure.

Ready means, all at once:

* one that serves (milestone set with a ready line): alive, load phase passed, ready line seen, 200 over HTTP;
* one that only loads (a follower): alive and load phase passed. Its own HTTP proves nothing: a follower's health
  server says 200 before rank 0 serves, and still does when its scheduler is dead (engine 0.5.23; sgl-project/sglang
  issue 6624).

One of whose processes some are stopped by a signal (SIGSTOP) is failed after a moment, whatever it said before: the
others wait for it, a follower for ever, and nobody else tells (engine 0.5.23). Let go on, it is judged anew.

One that serves and that says in its log that its warm-up failed, or whose health path asks for a key, fails at once.

Dead is final. Lost is not: a host that answers again is judged by what it says then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from http import HTTPStatus

from sgdeploy.engine.milestones import SYMPTOM, MilestoneSet
from sgdeploy.health.states import HttpAnswer, Observation, State, Transition
from sgdeploy.plan.model import Health

UNDER_WAY: tuple[State, ...] = ("planned", "starting", "loading", "warming")

HUNG_AFTER = 75.0
"""Seconds without a good answer *and* without log progress after which a ready process counts as hung.

The engine itself takes 20 s to answer 503 when it hangs (its SGLANG_HEALTH_CHECK_TIMEOUT), and our probe waits 25 s:
75 s are at least three misses. One miss is normal under long prefills (sgl-project/sglang#10856, #22511)."""

FROZEN_AFTER = 3.0
"""Seconds that a process may be stopped before it counts as failed: whoever looks at it lets it go on sooner."""

KEY_WANTED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
"""No waiting turns such an answer of a health path into a 200."""

ASKS_FOR_A_KEY = (
    "it asks for an API key, and health checks send none; leave this path open in the engine or in what stands before "
    "it (a proxy, a plug-in), as the engine does by itself also with `api-key`"
)

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_STAMP = re.compile(r"^\[[^\]]*\d\d:\d\d[^\]]*\]\s*|^\S*\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s*")


def says_something_new(before: str, after: str) -> bool:
    """Tell a new log line from the same sentence with a newer time stamp (an attempt that is made again and again).

    The very same line with its stamp is no repetition: the log grew without a new line, as progress bars do.
    """
    return before == after or _without_stamp(before) != _without_stamp(after)


def _without_stamp(line: str) -> str:
    return _STAMP.sub("", _COLOUR.sub("", line))


@dataclass(frozen=True)
class Change:
    """A new state of a process, and what led there.

    Attributes:
        health: the process as it stands now.
        transitions: none, or the one change of state or phase.
        progress: whether it moved on: a new milestone, or a log line that is neither noise nor a repetition.
    """

    health: ProcessHealth
    transitions: tuple[Transition, ...]
    progress: bool


@dataclass(frozen=True)
class ProcessHealth:
    """What is known of one process. Immutable: every input gives a new one.

    Attributes:
        process: id in the plan.
        host: inventory name.
        check: how the plan judges its health.
        milestones: its set, None where its log says nothing.
        log: path of its log on the host.
        state: where it stands.
        phase: the same in words.
        reason: why it failed or was lost.
        started_at: when it was started, None before.
        reached: milestones seen since the start.
        log_bytes: size of its log since the start.
        line: its last log line.
        http: the last answer of its health path.
        missing_since: when it stopped answering well after it was ready, None while it answers.
        progress_at: when it last moved on.
        died_at: when it ended or was lost, in the caller's clock.
        tail: its last log lines, once it is dead.
        dead: whether it has ended for good.
        pids: how many of its processes live: itself and its descendants.
        frozen: pid and name of those that a signal has stopped.
        frozen_since: since when there are such, None while all run.
        lost: the worker process that it has lost, "" for none.
    """

    process: str
    host: str
    check: Health
    milestones: MilestoneSet | None
    log: str = ""
    state: State = "planned"
    phase: str = "not started"
    reason: str = ""
    started_at: float | None = None
    reached: frozenset[str] = frozenset()
    log_bytes: int = 0
    line: str = ""
    http: HttpAnswer | None = None
    missing_since: float | None = None
    progress_at: float | None = None
    died_at: float | None = None
    tail: tuple[str, ...] = ()
    dead: bool = False
    pids: int = 0
    frozen: tuple[str, ...] = ()
    frozen_since: float | None = None
    lost: str = ""

    @property
    def decided(self) -> bool:
        """Whether it is ready or will not be, as far as can be told now."""
        return self.state == "failed" or (self.state not in UNDER_WAY and self.frozen_since is None)

    @property
    def lost_a_peer(self) -> bool:
        """Whether its log says that it lost another process: then its own end is a symptom, not a cause."""
        return SYMPTOM in self.reached

    def started(self, now: float) -> Change:
        """Note that the node started it."""
        return self._to(
            replace(self, started_at=now, progress_at=now, state="starting", phase="started"), now, progress=True
        )

    def stopped(self, now: float) -> Change:
        """Note that it was ended on purpose and proven gone."""
        return self._to(replace(self, state="stopped", phase="stopped", reason="", dead=True), now)

    def lose(self, reason: str, now: float) -> Change:
        """Note that its host does not answer any more; what is known to be dead stays failed."""
        if self.dead:
            return Change(self, (), progress=False)
        return self._to(
            replace(self, state="lost", phase="host lost", reason=reason, missing_since=None, died_at=now), now
        )

    def observe(self, seen: Observation, now: float) -> Change:
        """Take one observation in. Late observations of a process that is already dead change nothing."""
        if self.dead:
            return Change(self, (), progress=False)
        reached = self.reached.union(seen.milestones)
        new_milestone = reached != self.reached
        progress = new_milestone or self._log_moved(seen)
        known = replace(
            self,
            started_at=now if self.started_at is None else self.started_at,
            reached=reached,
            log_bytes=seen.log_bytes,
            line=seen.line or self.line,
            http=seen.http or self.http,
            pids=seen.pids or self.pids,
            frozen=seen.stopped,
            frozen_since=(self.frozen_since or now) if seen.stopped and seen.alive else None,
            lost=self.lost or seen.lost or "",
            progress_at=now if progress or self.progress_at is None else self.progress_at,
        )
        if seen.lost and not self.lost:
            known = replace(known, died_at=now - seen.lost_ago)
        after = _living(known, now) if seen.alive else _ended(known, seen, now)
        return self._to(after, now, progress=progress)

    def tick(self, now: float) -> Change:
        """Let time pass without an observation: a ready process that is silent for too long counts as hung."""
        if self.dead or (self.missing_since is None and self.frozen_since is None):
            return Change(self, (), progress=False)
        return self._to(_living(self, now), now)

    def _log_moved(self, seen: Observation) -> bool:
        if seen.log_bytes == self.log_bytes:
            return False
        if self.milestones is not None and self.milestones.is_noise(seen.line):
            return False
        return says_something_new(self.line, seen.line)

    def _to(self, after: ProcessHealth, now: float, *, progress: bool = False) -> Change:
        if (after.state, after.phase) == (self.state, self.phase):
            return Change(after, (), progress)
        told = Transition(self.process, self.host, self.state, after.state, after.phase, after.reason, now)
        return Change(after, (told,), progress)


def _ended(it: ProcessHealth, seen: Observation, now: float) -> ProcessHealth:
    reason = "ended; its exit code is not known (its keeper is gone too)"
    if seen.exit is not None:
        reason = seen.exit.text()
    elif seen.rebooted:
        reason = "gone: its host was booted anew after it was started"
    if not it.check.alive and seen.exit is not None and seen.exit.code == 0:
        return replace(it, state="stopped", phase="done", dead=True)
    died_at = now - (seen.died_ago or 0.0)
    if it.lost and it.died_at is not None and it.died_at < died_at:
        # Then that was the cause, and the moment. A worker that is missed only afterwards fell with its process.
        reason, died_at = f"{reason}, after its {it.lost} had ended", it.died_at
    return replace(it, state="failed", phase=_phase(it), reason=reason, died_at=died_at, tail=seen.tail, dead=True)


def _living(it: ProcessHealth, now: float) -> ProcessHealth:
    if it.lost:
        reason = f"alive, but its {it.lost} has ended: it does nothing any more, whatever it answers"
        return replace(it, state="failed", phase="without its worker", reason=reason, missing_since=None)
    if it.frozen_since is not None and now - it.frozen_since >= FROZEN_AFTER:
        names = ", ".join(f"pid {one}" for one in it.frozen)
        reason = f"stopped by a signal (SIGSTOP) and not let go on: {names}"
        died_at = it.frozen_since if it.died_at is None else it.died_at
        return replace(it, state="failed", phase="stopped by a signal", reason=reason, died_at=died_at)
    well = it.check.http is None or (it.http is not None and it.http.well)
    if broken := _broken(it):
        died_at = now if it.died_at is None else it.died_at
        return replace(it, state="failed", phase=_phase(it), reason=broken, missing_since=None, died_at=died_at)
    if it.state == "ready" or it.missing_since is not None:
        return _ready(it) if well else _silent(it, now)
    if well and _log_says_ready(it):
        return _ready(it)
    return replace(it, state=_state(it), phase=_phase(it), reason="", died_at=None)


def _broken(it: ProcessHealth) -> str:
    """Say what will not mend by waiting, "" where nothing of the kind is known."""
    if it.milestones is not None and (reason := it.milestones.failed(it.reached)):
        return reason
    # Before it has loaded, whoever answers on its port is somebody else.
    loaded = it.milestones is None or it.milestones.load_passed(it.reached)
    if loaded and it.check.http is not None and it.http is not None and it.http.code in KEY_WANTED:
        return f"{it.check.http} says {it.http.text()}: {ASKS_FOR_A_KEY}"
    return ""


def _ready(it: ProcessHealth) -> ProcessHealth:
    return replace(it, state="ready", phase="ready", missing_since=None, reason="", died_at=None)


def _silent(it: ProcessHealth, now: float) -> ProcessHealth:
    """Judge a process that was ready and does not answer well: busy, or hung."""
    since = now if it.missing_since is None else it.missing_since
    quiet = now - max(since, it.progress_at or since)
    answer = f"{it.check.http} says {it.http.text() if it.http else 'nothing'}"
    if quiet < HUNG_AFTER:
        return replace(it, state="ready", phase=f"busy ({answer})", missing_since=since, reason="", died_at=None)
    reason = f"alive but hung: {answer}, for {now - since:.0f} s, and no log line for {quiet:.0f} s"
    died_at = now if it.died_at is None else it.died_at
    return replace(it, state="failed", phase="hung", reason=reason, missing_since=since, died_at=died_at)


def _log_says_ready(it: ProcessHealth) -> bool:
    log = it.milestones
    return log is None or (log.load_passed(it.reached) and log.ready_line(it.reached))


def _state(it: ProcessHealth) -> State:
    milestone = it.milestones.furthest(it.reached) if it.milestones else None
    if milestone is None:
        return "starting"
    return "warming" if milestone.state == "ready" else milestone.state


def _phase(it: ProcessHealth) -> str:
    milestone = it.milestones.furthest(it.reached) if it.milestones else None
    words = milestone.phase if milestone else "started"
    if it.check.http is None or not _log_says_ready(it) or (it.http is not None and it.http.well):
        return words
    return f"{words}; {f'{it.check.http} says {it.http.text()}' if it.http else f'asking {it.check.http}'}"
