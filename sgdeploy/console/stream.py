"""An output stream whose reader may go away without taking a bring-up down with it."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from typing import TextIO

from sgdeploy.errors import SgdeployError

SHORTEST = 6
"""Characters of the shortest value that is hidden: a shorter one stands in words of its own right everywhere."""

_READER_GONE = (errno.EPIPE, errno.EIO, errno.ESHUTDOWN)


class UnwrittenError(SgdeployError):
    """What was to be shown could not be written, and not because its reader has gone."""


class Secrets:
    """Values that must not be seen, whoever wrote them: an engine may quote its key in an error, in any form."""

    def __init__(self, shortest: int = SHORTEST) -> None:
        """Begin without any; values of fewer characters are never taken in."""
        self._shortest = shortest
        self._names: dict[str, str] = {}

    def learn(self, values: Mapping[str, str]) -> None:
        """Take in the values of variables, by the names that are shown instead."""
        for name, value in values.items():
            if len(value) >= self._shortest:
                self._names.update({value: name, json.dumps(value)[1:-1]: name})

    def hide(self, text: str) -> str:
        """Give a text with the names in place of the values."""
        for value in sorted(self._names, key=len, reverse=True):  # one may be the begin of another
            text = text.replace(value, f"[{self._names[value]} hidden]")
        return text


class Sink:
    """A text stream that falls silent when its reader has gone (``… | head``, a closed terminal).

    Work on the hosts goes on in order and the exit code stays the one of the work; any other failure to write, such as
    a full disk, is raised once.
    """

    def __init__(self, stream: TextIO, secrets: Secrets | None = None) -> None:
        """Write to ``stream`` for as long as somebody reads it, and never one of the secrets."""
        self._stream = stream
        self.secrets = secrets or Secrets()
        self.gone = False

    @property
    def encoding(self) -> str:
        """Encoding of the stream behind."""
        return self._stream.encoding or "utf-8"

    def isatty(self) -> bool:
        """Tell whether a terminal is at the other end."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Give the descriptor behind (terminal size)."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Write, or drop the text once the reader has gone."""
        if not self.gone:
            try:
                self._stream.write(self.secrets.hide(text))
            except OSError as exc:
                self._forgive(exc)
        return len(text)

    def flush(self) -> None:
        """Flush, unless the reader has gone."""
        if not self.gone:
            try:
                self._stream.flush()
            except OSError as exc:
                self._forgive(exc)

    def _forgive(self, exc: OSError) -> None:
        self.gone = True
        if exc.errno not in _READER_GONE:
            raise UnwrittenError(f"the output cannot be written: {exc.strerror}") from exc
