"""Times and rank tags at the begin of log lines, in the forms that engine, router and their libraries write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = re.compile(
    r"^(?:\d+: |\[\d+,\d+\]<std(?:out|err)>: ?|\[rank\d+\]: (?!\[?[IWEF]\d{4} )|[\w.-]+ +\| "
    r"|\([\w ]+pid=\d+[^)]*\) )"
)
_FULL = re.compile(
    r"^(?:\[[A-Z][^\]]*\] )?\W{0,3}(?P<date>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?P<part>[.,]\d+)?[^\s\]]*\s*"
    r"(?P<tag>[A-Z]{2,3}\d+(?: [A-Z]{2,3}\d+)*)?\]?"
)
_GLOG = re.compile(r"^(?:\[rank(?P<rank>\d+)\]:)?\[?[IWEF](?P<date>\d{4}) (?P<time>\d\d:\d\d:\d\d)(?P<part>\.\d+)?")


@dataclass(frozen=True)
class Stamp:
    """When a line was written, and by which rank.

    Attributes:
        at: seconds since the epoch, the clock of the log taken as UTC.
        tag: ``TP0`` or ``DP1 TP3``, "" where none is named.
        length: of the stamp itself, in characters.
    """

    at: float
    tag: str
    length: int = 0


def plain(line: str) -> str:
    """Take off what terminals (colours) and launchers (``[rank1]: ``, ``0: ``, ``pod-0 | ``) put around a line."""
    line = _COLOUR.sub("", line) if "\x1b" in line else line
    return _PREFIX.sub("", line)


def stamp(line: str, year: int | None = None) -> Stamp | None:
    """Read the stamp of a line.

    Args:
        line: without colours.
        year: for forms that name none; such a stamp is not read without it.
    """
    if match := _FULL.match(line):
        at = _seconds(f"{match['date']} {match['time']}", match["part"])
        return None if at is None else Stamp(at, match["tag"] or "", match.end())
    if year is not None and (match := _GLOG.match(line)):
        date = f"{year}-{match['date'][:2]}-{match['date'][2:]}"
        at = _seconds(f"{date} {match['time']}", match["part"])
        return None if at is None else Stamp(at, f"rank {match['rank']}" if match["rank"] else "", match.end())
    return None


def year_of(at: float) -> int:
    """Give the year of a time."""
    return datetime.fromtimestamp(at, tz=timezone.utc).year


def seconds_of_day(at: float) -> float:
    """Give the seconds since midnight of a time."""
    return at % 86400


def _seconds(text: str, part: str | None) -> float | None:
    try:
        whole = datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
    return whole + (float("0." + part[1:]) if part else 0.0)
