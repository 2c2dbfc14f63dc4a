"""The operation ``watch``: all processes of a run folder, looked at again and again; what changed is told."""

from __future__ import annotations

import re
import time

from .errors import OpError
from .survivors import Survivors
from .watched import Watched

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection

    from .call import Call
    from .errors import Json


STOPPED = "T"
"""State of a process that a signal has stopped (SIGSTOP) and none has let go on; a debugger's is another one."""


class Watch:
    """Looks at all processes of a folder again and again, and tells what changed."""

    HEARTBEAT, RELOAD, COUNT = 2.0, 1.0, 2.0
    """Seconds between heartbeats, looks for records (a new one is seen at once), counts of descendants."""
    READ_SHARE = 0.02
    """Seconds per look that one log with a backlog may take."""

    def __init__(self, call: Call) -> None:
        """Compile all patterns; a wrong one is refused at once."""
        self._call = call
        self._folder = call.folder
        self._ids: Collection[str] | None = call.get("ids")
        self._interval = max(0.05, float(call.get("interval", 0.2)))
        self._patterns = {
            ident: [(name, compile_pattern(name, pattern)) for name, pattern in listed]
            for ident, listed in call.get("milestones", {}).items()
        }
        self._workers = {i: compile_pattern("workers", pattern) for i, pattern in call.get("workers", {}).items()}
        self._watched: dict[str, Watched] = {}
        self._folder.select(self._ids)

    def run(self) -> Json:
        """Go on until cancelled."""
        begin = time.monotonic()
        beat, reload, count = begin, begin, begin
        known = -1
        try:
            while not self._call.cancelled.is_set():
                now = time.monotonic()
                stamp = self._folder.records_stamp()
                if stamp != known or now >= reload:
                    self._reload()
                    known, reload = stamp, now + self.RELOAD
                if now >= count:
                    self._count()
                    # On a host with very many processes the count itself must stay below a hundredth of the time.
                    count = now + max(self.COUNT, 100 * (time.monotonic() - now))
                seen = [watched.observe(now, self.READ_SHARE) for watched in self._watched.values()]
                changed = [observation for observation in seen if observation is not None]
                if changed:
                    self._call.event({"observations": changed})
                if now >= beat:
                    self._call.event({"heartbeat": round(now - begin, 1)})
                    beat = now + self.HEARTBEAT
                behind = any(watched.behind for watched in self._watched.values())
                next_look = now + (0.0 if behind else self._interval)
                self._call.cancelled.wait(max(0.01, next_look - time.monotonic()))
        finally:
            for watched in self._watched.values():
                watched.close()
        return {}

    def _reload(self) -> None:
        for record in self._folder.records():
            ident = record["id"]
            known = self._watched.get(ident)
            same = known is not None and known.record == record
            if not same and (self._ids is None or ident in self._ids):
                if known is not None:
                    known.close()
                http = self._call.get("http", {}).get(ident)
                patterns, workers = self._patterns.get(ident, []), self._workers.get(ident)
                self._watched[ident] = Watched(self._folder, record, patterns, workers, http)

    def _count(self) -> None:
        for ident, members in Survivors(self._folder, deep=False).of(list(self._watched)).items():
            self._watched[ident].count(members)
            stopped = [member for member in members if member.state == STOPPED]
            self._watched[ident].stopped = [f"{member.pid} {member.name}" for member in stopped]


def compile_pattern(name: str, pattern: str) -> re.Pattern[str]:
    """Compile a milestone."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise OpError("bad-request", f"milestone {name} is no regular expression: {error}") from error
