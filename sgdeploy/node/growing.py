"""A file that grows, is cut, or is replaced by another one of its name."""

from __future__ import annotations

import os

from .files import CHUNK

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


class GrowingFile:
    """Reads a file from an offset on, again and again."""

    def __init__(self, path: Path, position: int) -> None:
        """Begin at ``position``, the offset of the next byte to be read; nothing is opened yet."""
        self._path = path
        self._stream: Any = None
        self.position = position

    def look(self) -> bool:
        """Open the file; begin again where it was cut, or where another file with content took its name.

        Tells whether what is read next does not continue what was read last.
        """
        if self._stream is not None:
            size = os.fstat(self._stream.fileno()).st_size
            if size == self.position and self._replaced():
                self.close()
                self.position = 0
            elif size < self.position:
                self._begin(0)
                return True
        if self._stream is not None:
            return False
        self._stream = self._path.open("rb", buffering=0)
        size = os.fstat(self._stream.fileno()).st_size
        self._begin(self.position if self.position <= size else 0)
        return True

    def read(self, limit: int = CHUNK) -> bytes:
        """Read what comes next; b"" at the end."""
        chunk: bytes = self._stream.read(limit)
        self.position += len(chunk)
        return chunk

    def close(self) -> None:
        """Close the file; ``look`` opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _replaced(self) -> bool:
        try:
            named = self._path.stat()
        except OSError:
            return False
        return named.st_size > 0 and named.st_ino != os.fstat(self._stream.fileno()).st_ino

    def _begin(self, position: int) -> None:
        self.position = position
        self._stream.seek(position)
