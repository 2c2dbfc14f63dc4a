"""The operation ``read_logs``: lines of the logs of one host in order of their times, and what is added to them."""

from __future__ import annotations

import os
import re
import signal
import time
from functools import partial
from heapq import merge

from .errors import OpError, os_fault
from .files import KIB
from .loglines import LogReader
from .logparts import find_part
from .logsearch import begin_of_hits, begin_of_tail, begin_since, time_before
from .stamps import Stamps

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .call import Call
    from .errors import Json
    from .loglines import Entry
    from .logparts import Part


class ReadLogs:
    """Sends the history of all logs, merged; then, if it is to follow, what comes."""

    LOOK, BEAT, QUIET = 0.2, 2.0, 2.0
    """Seconds between looks, between heartbeats, and after which an unfinished line is told as it is."""
    BATCH = 32 * KIB
    """Characters after which lines are sent."""
    SEARCH = 5
    """Seconds that a regular expression may take for one chunk. Nothing can interrupt a search but the kernel, which
    then ends this helper: before its controller gives a silent host up, and can say why."""

    def __init__(self, call: Call) -> None:
        """Read what is asked for.

        Raises:
            OpError: ``bad-request`` for what is no regular expression.
        """
        self._call = call
        self._follow: bool = call.get("follow", False)
        self._grep: Json | None = call.get("grep")
        self._keep: Callable[[str], bool] = every_line if self._grep is None else keeping(self._grep)
        self._beat = time.monotonic() + self.BEAT
        self._batch: list[list[object]] = []
        self._size = 0
        self._missing: dict[str, str] = {}
        self._readers = self._find()

    def run(self) -> Json:
        """Send all of it."""
        try:
            self._history()
            if self._follow:
                self._news()
        finally:
            signal.alarm(0)
        return {}

    def _find(self) -> dict[str, LogReader]:
        folder = self._call.folder
        records = {record["id"]: record for record in folder.records()}
        readers = {}
        for process in self._call["processes"]:
            ident = process["id"]
            try:
                part = find_part(folder, process, records.get(ident), self._call.get("part", "run"))
                readers[ident] = self._reader(part, utc=process.get("utc", False))
            except OpError as error:
                self._missing[ident] = str(error)
        return readers

    def _reader(self, part: Part, *, utc: bool) -> LogReader:
        """Make a reader that begins at the first line that is wanted."""
        stamps, path = Stamps(utc=utc), part.path
        try:
            size = path.stat().st_size
            os.close(os.open(str(path), os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            if not self._follow:
                raise OpError("missing", "it has written no log") from None
            return LogReader(path, (0, 0), stamps, self._keep, self._tick)
        except OSError as error:
            raise os_fault(error, path, "read") from error
        floor = part.begin if part.begin <= size else 0
        end = size if part.end is None else min(part.end, size)
        begin = self._begin(part, (floor, end), stamps)
        reader = LogReader(path, (begin, end), stamps, self._keep, self._tick)
        before = time_before(path, begin, floor, stamps)
        reader.begin_at(part.wall if before is None else before)
        return reader

    def _begin(self, part: Part, span: tuple[int, int], stamps: Stamps) -> int:
        since, tail = self._call.get("since"), self._call.get("tail")
        begin, end = span
        if since is not None:
            begin = begin_since(part.path, (begin, end), float(since), stamps, self._tick)
        if tail is None:
            return begin
        if self._grep is None:
            return begin_of_tail(part.path, (begin, end), int(tail), self._tick)
        hits = LogReader(part.path, (begin, end), stamps, self._keep, self._tick)
        return begin_of_hits(hits.history(whole=True), int(tail), end)

    def _history(self) -> None:
        logs = [named(ident, reader.history(whole=not self._follow)) for ident, reader in self._readers.items()]
        for ident, entry in merge(*logs, key=by_key):
            self._add(ident, entry)
        self._flush()
        self._send({"caught_up": True, "missing": self._missing})

    def _news(self) -> None:
        positions: dict[str, tuple[int, float]] = {}
        while not self._call.cancelled.wait(self.LOOK):
            self._tick()
            for ident, reader in self._readers.items():
                for entry in reader.news():
                    self._add(ident, entry)
                position, since = positions.get(ident, (-1, 0.0))
                now = time.monotonic()
                if reader.position != position:
                    positions[ident] = (reader.position, now)
                elif now - since >= self.QUIET:
                    for entry in reader.rest():
                        self._add(ident, entry)
            self._flush()

    def _add(self, ident: str, entry: Entry) -> None:
        self._batch.append([ident, entry.time, entry.text])
        self._size += len(entry.text) + KIB // 16
        if self._size >= self.BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._batch:
            batch, self._batch, self._size = self._batch, [], 0
            self._send({"lines": batch})

    def _tick(self) -> None:
        """Show that we live, and end where nobody listens any more; called again and again."""
        if self._call.cancelled.is_set():
            raise OpError("cancelled", "the operation was cancelled")
        if time.monotonic() >= self._beat:
            self._send({"heartbeat": True})
        self._allow_a_search()

    def _send(self, event: Json) -> None:
        signal.alarm(0)  # To wait for a slow reader is no search.
        self._call.event(event)
        self._beat = time.monotonic() + self.BEAT
        self._allow_a_search()

    def _allow_a_search(self) -> None:
        if self._grep is not None:
            signal.alarm(self.SEARCH)


def keeping(grep: Json) -> Callable[[str], bool]:
    """Make the question whether a line is wanted."""
    try:
        pattern = re.compile(grep["pattern"], re.IGNORECASE if grep.get("ignore_case") else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise OpError("bad-request", "{!r} is no regular expression: {}".format(grep["pattern"], error)) from error
    return partial(is_wanted, pattern, bool(grep.get("invert")))


def is_wanted(pattern: re.Pattern[str], invert: bool, text: str) -> bool:
    """Whether a line holds the pattern or, inverted, does not."""
    return (pattern.search(text) is None) is invert


def every_line(_text: str) -> bool:
    """Want all."""
    return True


def named(ident: str, entries: Iterable[Entry]) -> Iterator[tuple[str, Entry]]:
    """Yield lines with the name of their process."""
    return ((ident, entry) for entry in entries)


def by_key(item: tuple[str, Entry]) -> float:
    """Give the place of a line among those of other logs."""
    return item[1].key
