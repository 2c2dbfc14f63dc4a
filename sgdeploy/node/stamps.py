"""Times at the begin of log lines: ``[2026-11-29 22:00:00 TP0] …`` of the engine, ISO ones of others."""

from __future__ import annotations

import calendar
import re
import time

STAMP = re.compile(
    rb"(?:\x1b\[[0-9;]*m)*\[?"
    rb"(\d{4})-(0[1-9]|1[0-2])-([0-3]\d)[ T]([01]\d|2[0-3]):([0-5]\d):([0-6]\d)"
    rb"(?:[.,](\d{1,9}))?\s?(Z\b|[+-]\d\d:?\d\d\b)?"
)


class Stamps:
    """Reads the times of one log. A time without a zone is of the host's own, or of UTC where it is said so."""

    def __init__(self, *, utc: bool) -> None:
        """Say what a time without a zone means."""
        self._utc = utc
        self._minute: tuple[tuple[bytes, ...], float | None] = ((), None)

    def read(self, line: bytes) -> float | None:
        """Give seconds since the epoch, None for a line without a time."""
        found = STAMP.match(line)
        if found is None:
            return None
        *minute, second, part, zone = found.groups()
        key = (*minute, zone or b"")
        if key != self._minute[0]:  # most lines are of the same minute as the one before
            self._minute = (key, self._begin_of(minute, zone))
        begin = self._minute[1]
        return None if begin is None else begin + int(second) + float(b"0." + (part or b"0"))

    def _begin_of(self, minute: list[bytes], zone: bytes | None) -> float | None:
        year, month, day, hour, minutes = map(int, minute)
        try:
            if zone is None and not self._utc:
                return time.mktime((year, month, day, hour, minutes, 0, 0, 0, -1))
            return calendar.timegm((year, month, day, hour, minutes, 0)) - ahead_of_utc(zone or b"Z")
        except (OverflowError, ValueError):
            return None


def ahead_of_utc(zone: bytes) -> int:
    """Give the seconds by which a zone such as ``+02:00`` is ahead of UTC."""
    if zone == b"Z":
        return 0
    seconds = 3600 * int(zone[1:3]) + 60 * int(zone[-2:])
    return -seconds if zone.startswith(b"-") else seconds
