"""The states of a process, its observations as the node reports them, and what a change of state looks like."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

State: TypeAlias = Literal["planned", "starting", "loading", "warming", "ready", "failed", "lost", "stopped"]

KILLED_STATUS = 128
"""A shell, and the engine's main process, report a child's death by signal N as exit code 128 + N."""


@dataclass(frozen=True)
class Exit:
    """How a process ended: exactly one of the two is set.

    Attributes:
        code: exit code, 0 to 255.
        signal: number of the signal that killed it.
    """

    code: int | None = None
    signal: int | None = None

    def text(self) -> str:
        """Say it in words: ``exit code 3``, ``killed by SIGKILL (9)``."""
        if self.signal is not None:
            name = signal_name(self.signal)
            return f"killed by {name} ({self.signal})" if name.startswith("SIG") else f"killed by {name}"
        if self.code == 0:
            return "ended with exit code 0 although it should serve"
        if self.code is not None and self.code > KILLED_STATUS:
            number = self.code - KILLED_STATUS
            return f"exit code {self.code} ({KILLED_STATUS} + {signal_name(number)})"
        return f"exit code {self.code}"


def signal_name(number: int) -> str:
    """Give ``SIGKILL`` for 9; ``signal 40`` where a number has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class HttpAnswer:
    """What the last probe on the node got: exactly one of the two is set.

    Attributes:
        code: HTTP status.
        error: ``refused``, ``timeout`` or the error's text.
    """

    code: int | None = None
    error: str | None = None

    @property
    def well(self) -> bool:
        """Whether it was 200; nothing else means that the process serves."""
        return self.code == HTTPStatus.OK

    def text(self) -> str:
        """Give ``503`` or ``refused``."""
        return str(self.code) if self.code is not None else (self.error or "no answer")


@dataclass(frozen=True)
class Observation:
    """One row of a ``watch`` event (docs/node-protocol.md).

    Attributes:
        process: id in the plan.
        alive: whether the recorded process lives (boot id, pid and start time all match).
        exit: how it ended, None while it lives or where its keeper could not say.
        died_ago: seconds since the keeper saw the end, None where unknown.
        milestones: names reached since the start, in any order; old ones may be left out.
        log_bytes: size of its log since the start.
        line: its last log line.
        http: the last answer of its health path, None where nothing was asked yet.
        pids: how many of its descendants live, itself included.
        stopped: pid and name of those that a signal has stopped and none has let go on.
        lost: the worker process that ended although the process itself lives, None where all live.
        lost_ago: seconds since that was seen.
        tail: its last log lines, once it is dead.
        rebooted: whether its host was booted anew since it was started.
    """

    process: str
    alive: bool
    exit: Exit | None = None
    died_ago: float | None = None
    milestones: tuple[str, ...] = ()
    log_bytes: int = 0
    line: str = ""
    http: HttpAnswer | None = None
    pids: int = 0
    stopped: tuple[str, ...] = ()
    lost: str | None = None
    lost_ago: float = 0.0
    tail: tuple[str, ...] = ()
    rebooted: bool = False

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Observation:
        """Read a row of the wire; keys that are missing or null take their defaults."""
        ended, http, pids = row.get("exit"), row.get("http"), row.get("pids")
        lost = row.get("lost") or {}
        return cls(
            process=row["process"],
            alive=bool(row["alive"]),
            exit=Exit(ended.get("code"), ended.get("signal")) if ended else None,
            died_ago=row.get("died_ago"),
            milestones=tuple(row.get("milestones") or ()),
            log_bytes=row.get("log_bytes") or 0,
            line=row.get("line") or "",
            http=HttpAnswer(http.get("code"), http.get("error")) if http else None,
            pids=len(pids) if isinstance(pids, list) else pids or 0,
            stopped=tuple(row.get("stopped") or ()),
            lost=f"{lost['title']} (pid {lost['pid']})" if lost else None,
            lost_ago=lost.get("ago") or 0.0,
            tail=tuple(row.get("tail") or ()),
            rebooted=bool(row.get("rebooted")),
        )


@dataclass(frozen=True)
class Transition:
    """A process changed its state or its phase.

    Attributes:
        process: id in the plan.
        host: inventory name.
        before: state it was in.
        after: state it is in now; equal to ``before`` where only the phase changed.
        phase: where it stands, in words.
        reason: why it failed or was lost, "" otherwise.
        at: time of the observation, in the caller's clock.
    """

    process: str
    host: str
    before: State
    after: State
    phase: str
    reason: str
    at: float
