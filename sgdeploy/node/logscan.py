"""Following one log that grows, is cut, or is replaced."""

from __future__ import annotations

import re
import time

from .files import CHUNK
from .growing import GrowingFile
from .logs import LINE_SHOWN, clean

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


BREAKS = re.compile(rb"[\r\n]+")


class LogScan:
    """Follows one log from an offset: what was reached, the last line, how much was written.

    At most one chunk and one unfinished line are in memory. Only the first 64 KiB of a line are searched.
    """

    def __init__(
        self, path: Path, offset: int, patterns: list[tuple[str, re.Pattern[str]]], known: Collection[str] = ()
    ) -> None:
        """Look for each pattern once, in lines after the offset; those that are known were found before."""
        self._file = GrowingFile(path, offset)
        self._patterns = patterns
        self._open = {name: pattern for name, pattern in patterns if name not in known}
        self._unfinished = b""
        self._skipping = False
        self._last = b""
        self.bytes = 0
        self.behind = False

    @property
    def reached(self) -> list[str]:
        """Names found so far, in the order of the list."""
        return [name for name, _ in self._patterns if name not in self._open]

    @property
    def line(self) -> str:
        """The last line that says something."""
        return clean(self._unfinished, LINE_SHOWN) or clean(self._last, LINE_SHOWN)

    def pull(self, seconds: float) -> None:
        """Read what is new, for about so many seconds at most."""
        deadline = time.monotonic() + seconds
        before = self.bytes
        self.behind = False
        try:
            if self._file.look():
                self._unfinished, self._skipping = b"", False
            while True:
                chunk = self._file.read()
                if not chunk:
                    break
                self.bytes += len(chunk)
                self._feed(chunk)
                if time.monotonic() > deadline:
                    self.behind = True
                    break
        except OSError:
            self.close()
        if self.bytes != before:
            self._search(self._unfinished)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _feed(self, chunk: bytes) -> None:
        if self._skipping:
            if b"\n" not in chunk and b"\r" not in chunk:
                return
            found = BREAKS.search(chunk)
            chunk, self._skipping = chunk[found.end() if found else len(chunk) :], False
        *lines, self._unfinished = BREAKS.split(self._unfinished + chunk)
        for line in lines:
            self._search(line)
        self._last = next((line for line in reversed(lines) if line.strip()), self._last)[:CHUNK]
        if len(self._unfinished) > CHUNK:
            self._last, self._unfinished = self._unfinished[:CHUNK], b""
            self._skipping = True
            self._search(self._last)

    def _search(self, line: bytes) -> None:
        if not self._open or not line:
            return
        text = clean(line)
        for name in [name for name, pattern in self._open.items() if pattern.search(text)]:
            del self._open[name]
