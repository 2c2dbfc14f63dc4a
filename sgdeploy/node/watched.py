"""One process under watch: its life, its log, its health path."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path

from .errors import OpError
from .files import read_intact, write_json
from .folder import exit_json, record_alive
from .http_client import http_request
from .logs import TAIL_LINES, read_tail
from .logscan import LogScan
from .processes import boot_id, lives
from .shapes import WORKER, rows_of
from .threads import Later
from .workers import Workers

TYPE_CHECKING = False

if TYPE_CHECKING:
    import re

    from .errors import Json
    from .folder import Folder
    from .processes import Stat


class Probe:
    """Asks the health path of one process in a thread, never holding the others up: once a second, or when hurried."""

    LIMIT = 25.0
    """Seconds: a hung engine takes 20 s to say so."""

    def __init__(self, target: Json) -> None:
        """Keep address, port, path and headers."""
        self._target = target
        self._running: Later | None = None
        self._begun = -1.0
        self._hurried = False
        self.last: Json | None = None

    def hurry(self) -> None:
        """Ask again without waiting for the next second: what the process just said may have changed its answer."""
        self._hurried = True

    def poll(self, now: float) -> None:
        """Take an answer if there is one, and ask again if it is time."""
        if self._running is not None:
            late = now - self._begun > self.LIMIT
            if not self._running.done and not late:
                return
            self.last = {"error": "timeout", "seconds": self.LIMIT} if late else self._running.wait(1.0)
            self._running = None
        if self._hurried or self._begun < 0 or now - self._begun >= 1.0:
            self._hurried = False
            self._begun = now
            self._running = Later(self._ask)

    def _ask(self) -> Json:
        target = self._target
        begin = time.monotonic()
        where = (target["address"], target["port"])
        answer = http_request(where, "GET", target["path"], target.get("headers") or {}, None, self.LIMIT)
        kept = {key: answer[key] for key in ("code", "error") if answer[key] is not None}
        return {**kept, "seconds": round(time.monotonic() - begin, 3)}


class Watched:
    """One process under watch."""

    EXIT_WAIT = 1.0
    """Seconds that a keeper gets to write how a process ended before its end is reported without."""

    def __init__(
        self,
        folder: Folder,
        record: Json,
        patterns: list[tuple[str, re.Pattern[str]]],
        workers: re.Pattern[str] | None,
        http: Json | None,
    ) -> None:
        """Begin at the offset where this run's part of the log begins."""
        self.record = record
        self.pids: int | None = None
        self.stopped: list[str] = []
        self._folder = folder
        self._milestones = folder.milestones_file(record["key"])
        known = self._known()
        self._scan = LogScan(Path(record["log"]), record["offset"], patterns, known.get("reached", []))
        self._workers = Workers(workers, known.get("workers", []))
        self._probe = None if http is None else Probe(http)
        self._missing_since: float | None = None
        self._dead: Json | None = None
        self._sent: Json = {}
        self._sent_at = 0.0

    @property
    def behind(self) -> bool:
        """Whether more of the log was there than one look may read."""
        return self._scan.behind

    def close(self) -> None:
        """Close the log."""
        self._scan.close()

    def _known(self) -> Json:
        """Give what is known of this very process from before: its log may have been cut, its workers have ended."""
        found = read_intact(self._milestones)
        if found is None or self.record["pid"] is None or any(found.get(k) != self.record[k] for k in ("pid", "start")):
            return {}
        reached = found.get("reached")
        names = [name for name in reached if isinstance(name, str)] if isinstance(reached, list) else []
        return {"reached": names, "workers": rows_of(found.get("workers"), WORKER)}

    def _keep(self) -> None:
        """Keep what was reached and who works for it, where there is space."""
        who = {key: self.record[key] for key in ("pid", "start")}
        with contextlib.suppress(OpError):
            seen = {"reached": self._scan.reached, "workers": self._workers.rows()}
            write_json(self._milestones, {**who, **seen}, sync=False)

    def count(self, members: list[Stat]) -> None:
        """Take in which of its descendants live, itself included."""
        self.pids = len(members)
        if self._workers.see(members):
            self._keep()

    def observe(self, now: float, seconds: float) -> Json | None:
        """Look; give an observation if something changed."""
        self._workers.look(now, partial(record_alive, self.record))
        alive = self._alive(now)
        reached = len(self._scan.reached)
        self._scan.pull(seconds if alive else 10 * seconds)
        if len(self._scan.reached) > reached:
            self._keep()
        if not alive and self._dead is None:
            self._dead = self._last_words()
        if alive and self._probe is not None:
            if len(self._scan.reached) > reached:
                self._probe.hurry()
            self._probe.poll(now)
        seen = {
            "process": self.record["id"],
            "alive": alive,
            "exit": None,
            "died_ago": None,
            "died_at": None,
            "milestones": self._scan.reached,
            "log_bytes": self._scan.bytes,
            "line": self._scan.line,
            "http": None if self._probe is None else self._probe.last,
            "pids": self.pids,
            "stopped": self.stopped if alive else [],
            "lost": self._workers.lost(now, alive=alive),
            "tail": None,
            "rebooted": False,
            **(self._dead or {}),
        }
        if not self._changed(seen, now):
            return None
        self._sent, self._sent_at = seen, now
        return seen

    def _changed(self, seen: Json, now: float) -> bool:
        slow = {"log_bytes", "line", "died_ago", "died_at", "tail", "http", "lost"}
        if (seen["lost"] is None) != (self._sent.get("lost") is None):
            return True
        before, after = self._sent.get("http") or {}, seen["http"] or {}
        if any(before.get(key) != after.get(key) for key in ("code", "error")):
            return True
        if any(seen[key] != self._sent.get(key, seen) for key in seen if key not in slow):
            return True
        grown = (seen["log_bytes"], seen["line"]) != (self._sent.get("log_bytes"), self._sent.get("line"))
        return grown and now - self._sent_at >= 1.0

    def _alive(self, now: float) -> bool:
        if self._dead is not None:
            return False
        if record_alive(self.record):
            return True
        self._missing_since = now if self._missing_since is None else self._missing_since
        told = self._folder.ended(self.record) is not None
        keeper = self.record["keeper"]
        return not told and now - self._missing_since < self.EXIT_WAIT and lives(keeper["pid"], keeper["start"])

    def _last_words(self) -> Json:
        ended = self._folder.ended(self.record)
        ago = None if ended is None else round(max(0.0, time.monotonic() - ended["mono"]), 3)
        tail = read_tail(Path(self.record["log"]), self.record["offset"], TAIL_LINES)
        wall = None if ended is None else ended["wall"]
        rebooted = self.record["boot_id"] != boot_id()
        return {"exit": exit_json(ended), "died_ago": ago, "died_at": wall, "tail": tail, "rebooted": rebooted}
