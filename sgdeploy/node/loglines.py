"""One log as lines with their times, in bounded memory, whatever the log holds."""

from __future__ import annotations

from .files import CHUNK
from .growing import GrowingFile
from .logs import clean
from .stamps import Stamps

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LINE = CHUNK
"""Bytes of a line that are kept; how many more it had is said at its end."""


class LineBuilder:
    """Puts lines together out of chunks. No more than the begin of one unfinished line is in memory."""

    def __init__(self, position: int) -> None:
        """Begin with a line at an offset of the file."""
        self._begin = position
        self._size = 0
        self._head = b""
        self._left_out = 0
        self._returned = False

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes, int]]:
        """Yield the lines that are complete: offset, bytes without the line end, number of bytes left out."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield self._take(line_end=1)
        self._add(rest)

    def rest(self) -> Iterator[tuple[int, bytes, int]]:
        """Yield the unfinished line, if there is one; what comes after it is a line of its own."""
        if self._head:
            yield self._take(line_end=0)

    def _take(self, line_end: int) -> tuple[int, bytes, int]:
        line = (self._begin, self._head, self._left_out)
        self._begin += self._size + line_end
        self._size, self._head, self._left_out, self._returned = 0, b"", 0, False
        return line

    def _add(self, piece: bytes) -> None:
        """Go on with a line; of one that was rewritten by carriage returns only the last state counts."""
        self._size += len(piece)
        body = piece.rstrip(b"\r")
        if not body:
            self._returned = self._returned or bool(piece)
            return
        _, overwritten, last = body.rpartition(b"\r")
        if overwritten or self._returned:
            self._head, self._left_out = b"", 0
        self._returned = len(body) < len(piece)
        room = LINE - len(self._head)
        self._head += last[:room]
        self._left_out += max(0, len(last) - room)


class Entry:
    """One line: where it begins in its file, when it was written, what it says, and its place among other logs.

    ``key`` is the time, but never less than that of the line before: a log is never shown in another order than its
    own.
    """

    __slots__ = ("begin", "key", "text", "time")

    def __init__(self, begin: int, key: float, time: float | None, text: str) -> None:
        """Keep all of it."""
        self.begin = begin
        self.key = key
        self.time = time
        self.text = text


class LogReader:
    """Reads part of one log, and then what is added to it."""

    def __init__(
        self,
        path: Path,
        span: tuple[int, int],
        stamps: Stamps,
        keep: Callable[[str], bool],
        tick: Callable[[], None],
    ) -> None:
        """Take what to read.

        ``span`` is the part that counts as history, in bytes. ``keep`` says which lines are wanted. ``tick`` is called
        once for each chunk; what it raises ends the reading.
        """
        self._end = span[1]
        self._stamps = stamps
        self._keep = keep
        self._tick = tick
        self._file = GrowingFile(path, span[0])
        self._builder = LineBuilder(span[0])
        self.time: float | None = None
        self.key = 0.0

    def begin_at(self, time: float | None) -> None:
        """Say when the line before the first one was written, for lines that do not say it themselves."""
        self.time = time
        self.key = time or 0.0

    def history(self, *, whole: bool) -> Iterator[Entry]:
        """Yield the lines of the part; with ``whole`` an unfinished last one too. What cannot be read is empty."""
        try:
            self._look()
            while self._file.position < self._end:
                chunk = self._file.read(min(CHUNK, self._end - self._file.position))
                if not chunk:
                    break
                self._tick()
                yield from self._entries(self._builder.feed(chunk))
        except OSError:
            self._file.close()
        if whole:
            yield from self.rest()
            self._file.close()

    def news(self) -> Iterator[Entry]:
        """Yield the lines that were added since."""
        try:
            self._look()
            while True:
                chunk = self._file.read()
                if not chunk:
                    break
                self._tick()
                yield from self._entries(self._builder.feed(chunk))
        except OSError:
            self._file.close()

    def rest(self) -> Iterator[Entry]:
        """Yield the unfinished line, as it is."""
        return self._entries(self._builder.rest())

    @property
    def position(self) -> int:
        """Offset of what will be read next."""
        return self._file.position

    def _look(self) -> None:
        if self._file.look():
            self._builder = LineBuilder(self._file.position)

    def _entries(self, lines: Iterator[tuple[int, bytes, int]]) -> Iterator[Entry]:
        for begin, line, left_out in lines:
            stamp = self._stamps.read(line)
            if stamp is not None:
                self.time = stamp
                self.key = max(self.key, stamp)
            text = clean(line)
            if self._keep(text):
                shown = f"{text} [… {left_out} bytes left out]" if left_out else text
                yield Entry(begin, self.key, self.time, shown)
