"""The logs of one host, line by line; what nobody has taken yet stays on the host, but for a few events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from sgdeploy.errors import HostFault
from sgdeploy.plan.model import Process
from sgdeploy.remote.base import Json, LostHostError, NodeError, NodeSession

SILENCE = 10.0
"""A node sends something every 2 s, also while it searches; five times nothing is a lost host."""
_ALARM = ("SIGALRM", "exit code 142", "Alarm clock")
"""How a helper ends that the alarm of a search ended, by itself or below a shell."""
WINDOW = 4
"""Events of a host that may be on their way or wait here, of 32 KiB each."""


@dataclass(frozen=True)
class Grep:
    """Which lines are wanted: a regular expression, searched on the hosts."""

    pattern: str
    ignore_case: bool = False
    invert: bool = False


@dataclass(frozen=True)
class LogsOptions:
    """What ``logs`` shows.

    Attributes:
        only: selectors of processes; empty for all.
        part: of each log: that of the last run, of the one before it, or all there is.
        tail: so many lines of each process, the last ones; None for all.
        since: seconds since the epoch, by our clock; None for any time.
        grep: which lines; None for all. ``tail`` counts these.
        follow: go on with what is added, until cancelled.
    """

    only: tuple[str, ...] = ()
    part: Literal["run", "previous", "all"] = "run"
    tail: int | None = None
    since: float | None = None
    grep: Grep | None = None
    follow: bool = False


@dataclass(frozen=True)
class LogLine:
    """One line.

    Attributes:
        process: who wrote it.
        time: when, in seconds since the epoch by our clock: its own time or that of the line before; None if unknown.
        text: the line, made harmless, without its end.
    """

    process: Process
    time: float | None
    text: str


Show: TypeAlias = "Callable[[Sequence[LogLine]], Awaitable[bool]]"
"""Shows some lines, or none, only to ask; tells whether anybody still reads."""


class HostLogs:
    """The lines of one host, as they come.

    Attributes:
        missing: process → why there is nothing of it.
        fault: what ended the lines too early.
    """

    def __init__(self, session: NodeSession, processes: Sequence[Process], ahead: float, options: LogsOptions) -> None:
        """Ask an open host, whose clock is ahead of ours by so many seconds, once the first line is wanted."""
        self.missing: dict[str, str] = {}
        self.fault: HostFault | None = None
        self._processes = {process.id: process for process in processes}
        self._ahead = ahead
        self._grep = options.grep
        self._lines: Iterator[LogLine] = iter(())
        question = {"run_dir": session.host.run_dir, **self._question(options), "window": WINDOW}
        self._events = session.stream("read_logs", question, silence=SILENCE)
        self._last = 0.0

    def _question(self, options: LogsOptions) -> Json:
        # The router writes its times in UTC and without a zone, the engine in the zone of its host.
        processes = [
            {"id": process.id, "log": process.log, "utc": process.role == "router"}
            for process in self._processes.values()
        ]
        return {
            "processes": processes,
            "part": options.part,
            "tail": options.tail,
            "since": None if options.since is None else options.since + self._ahead,
            "grep": None if options.grep is None else asdict(options.grep),
            "follow": options.follow,
        }

    async def next(self) -> tuple[float, LogLine] | None:
        """Give the next line of the history and its place in time, which only grows; None at the end of the history."""
        while (line := next(self._lines, None)) is None:
            event = await self._event()
            if event is None or "caught_up" in event:
                return None
        self._last = max(self._last, line.time or 0.0)
        return self._last, line

    async def news(self) -> AsyncIterator[list[LogLine]]:
        """Yield what is added after the history, without an end unless the host is lost."""
        while await self._event() is not None:
            if lines := list(self._lines):
                yield lines

    async def _event(self) -> Json | None:
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            return None
        except (NodeError, LostHostError) as error:
            self.fault = self._fault(error)
            return None
        self._lines = map(self._line, event.get("lines", ()))
        self.missing.update(event.get("missing", {}))
        return event

    def _fault(self, error: NodeError | LostHostError) -> HostFault:
        """Name the pattern where the host ended the search for it: nothing else takes that long."""
        if self._grep is None or not any(word in str(error) for word in _ALARM):
            return error.fault
        reason = f"--grep {self._grep.pattern!r} takes too long: no line may take seconds to search"
        return HostFault(error.host, reason, "repeats within repeats, as in (a+)+, try all ways to part a line")

    def _line(self, row: Sequence[object]) -> LogLine:
        ident, stamp, text = row
        when = stamp - self._ahead if isinstance(stamp, int | float) else None
        return LogLine(self._processes[str(ident)], when, str(text))
