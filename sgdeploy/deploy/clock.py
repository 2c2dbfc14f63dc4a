"""The clock of those who watch: it does not count the time in which this program itself stood still (Ctrl-Z)."""

from __future__ import annotations

import time

STILL = 1.5
"""A wait that takes so much longer than it was meant to, in seconds, says that we stood still."""

LONG = 10.0
"""Standing still for so many seconds, hosts may have given us up: a node helper does after 30 s without a word."""

LATELY = 60.0
"""Seconds after we went on in which the loss of a host is still put down to it."""


class Clock:
    """Counts seconds, but not those in which this program stood still: nothing could be heard meanwhile."""

    def __init__(self) -> None:
        """Begin to count."""
        self._stood = 0.0
        self._last = (0.0, float("-inf"))

    def now(self) -> float:
        """Give the seconds so far; only differences mean anything."""
        return time.monotonic() - self._stood

    def waited(self, seconds: float, *, meant: float) -> None:
        """Take in how long a wait took that was to end by itself after ``meant`` seconds."""
        still = seconds - meant
        if still > STILL:
            self._stood += still
            self._last = (still, time.monotonic())

    @property
    def stood_lately(self) -> float:
        """For how many seconds we stood still, long enough for hosts to give us up and not long ago; 0 for not so."""
        still, until = self._last
        return still if still > LONG and time.monotonic() - until < LATELY else 0.0
