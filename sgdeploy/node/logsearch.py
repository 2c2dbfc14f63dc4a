"""Where in a log to begin: its last lines, what came since a time, the last lines that were asked for."""

from __future__ import annotations

from collections import deque

from .files import CHUNK
from .logs import read_range

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from .loglines import Entry
    from .stamps import Stamps

HEAD = 80
"""Bytes of a line among which its time is."""


def begin_of_tail(path: Path, span: tuple[int, int], count: int, tick: Callable[[], None]) -> int:
    """Give where the last ``count`` lines of a part begin; whatever the lines hold, one chunk is in memory."""
    begin, end = span
    position, left = end, count
    while position > begin and left > 0:
        tick()
        start = max(begin, position - CHUNK)
        data, _ = read_range(path, start, position - start)
        if position == end and data.endswith(b"\n"):
            data = data[:-1]
        ends = data.count(b"\n")
        if ends >= left:
            return start + nth_from_the_end(data, left) + 1
        left -= ends
        position = start
    return begin if left > 0 else end


def nth_from_the_end(data: bytes, count: int) -> int:
    """Give the place of a line end, counted from the last one, which is the first."""
    place = len(data)
    for _ in range(count):
        place = data.rfind(b"\n", 0, place)
    return place


def begin_of_hits(entries: Iterable[Entry], count: int, otherwise: int) -> int:
    """Give where the last ``count`` of these lines begin; of the others nothing is kept."""
    begins = deque((entry.begin for entry in entries), maxlen=count)
    return begins[0] if begins else otherwise


def begin_since(path: Path, span: tuple[int, int], since: float, stamps: Stamps, tick: Callable[[], None]) -> int:
    """Give where the first line begins that was written at a time or later; the end of the part where there is none.

    Times only grow in a log, so half of it is left out with each look. A log without any time counts whole, if it was
    written to since then.
    """
    low, high = span
    seen = False
    while high - low > CHUNK:
        middle = (low + high) // 2
        found = next_stamp(path, (middle, high), stamps, tick)
        seen = seen or found is not None
        if found is None or found[1] >= since:
            high = middle
        else:
            low = found[0]
    for begin, head in line_begins(path, (low, span[1]), tick, whole=low == span[0]):
        stamp = stamps.read(head)
        seen = seen or stamp is not None
        if stamp is not None and stamp >= since:
            return begin
    return span[0] if not seen and path.stat().st_mtime >= since else span[1]


def next_stamp(path: Path, span: tuple[int, int], stamps: Stamps, tick: Callable[[], None]) -> tuple[int, float] | None:
    """Give where the next line with a time begins, behind the begin of a part, and that time."""
    found = ((begin, stamps.read(head)) for begin, head in line_begins(path, span, tick, whole=False))
    return next(((begin, stamp) for begin, stamp in found if stamp is not None), None)


def line_begins(
    path: Path, span: tuple[int, int], tick: Callable[[], None], *, whole: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield where lines begin, and their first bytes; with ``whole`` one begins where the part does."""
    position, end = span
    at_begin = whole
    while position < end:
        tick()
        data, _ = read_range(path, position, min(CHUNK + HEAD, end - position))
        size = min(CHUNK, len(data))
        if not size:
            return
        if at_begin:
            yield position, data[:HEAD]
        place = data.find(b"\n", 0, size)
        while 0 <= place < size - 1:
            yield position + place + 1, data[place + 1 : place + 1 + HEAD]
            place = data.find(b"\n", place + 1, size)
        at_begin = place == size - 1
        position += size


def time_before(path: Path, begin: int, floor: int, stamps: Stamps) -> float | None:
    """Give the last time that was written within 64 KiB before an offset."""
    start = max(floor, begin - CHUNK)
    data, _ = read_range(path, start, begin - start)
    found = (stamps.read(line) for line in reversed(data.split(b"\n")))
    return next((stamp for stamp in found if stamp is not None), None)
