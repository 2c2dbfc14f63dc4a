"""What the files of a run folder must hold: hands and disks damage them, and nothing may trip over one."""

from __future__ import annotations

import re

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .errors import Json

    Shape = Mapping[str, Callable[[Any], bool]]

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@=-]*\Z")
LATEST = 1e11
"""Seconds since the epoch that are no time any more."""


def is_text(value: Any) -> bool:
    """Whether it is a text."""
    return isinstance(value, str)


def is_name(value: Any) -> bool:
    """Whether it is a file name that cannot leave its folder."""
    return isinstance(value, str) and NAME.match(value) is not None


def is_count(value: Any) -> bool:
    """Whether it is a whole number as the kernel knows them."""
    return isinstance(value, int) and 0 <= value < 1 << 63


def is_no_or_count(value: Any) -> bool:
    """Whether it is a number, or not known yet."""
    return value is None or is_count(value)


def is_moment(value: Any) -> bool:
    """Whether it is a number of seconds that a clock can show."""
    return isinstance(value, (int, float)) and 0 <= value < LATEST


def is_no_or_moment(value: Any) -> bool:
    """Whether it is such a number, or not known."""
    return value is None or is_moment(value)


def is_one_process(value: Any) -> bool:
    """Whether it names one process until the next boot."""
    return isinstance(value, dict) and all(is_count(value.get(key)) for key in ("pid", "start"))


PROCESS: Shape = {
    **dict.fromkeys(("id", "launch", "marker", "boot_id", "log"), is_text),
    **dict.fromkeys(("pid", "pgid", "sid", "start"), is_no_or_count),
    **dict.fromkeys(("uid", "offset"), is_count),
    "key": is_name,
    "keeper": is_one_process,
}
"""The record of a process. Its ``wall`` (seconds) may be missing."""
KEEPER: Shape = {
    "pid": is_count,
    "start": is_count,
    "boot_id": is_text,
    "subreaper": is_count,
    "ended": is_no_or_moment,
}
"""What a keeper writes about itself."""
EXIT: Shape = {"pid": is_count, "start": is_count, "wall": is_moment, "mono": is_moment}
"""How a process ended: beside these ``code`` or ``signal``."""
RUN: Shape = {"offset": is_count, "wall": is_no_or_moment}
"""One run in a log: beside these ``exit`` or ``asked``."""

WORKER: Shape = {"pid": is_count, "start": is_count, "title": is_text}
"""A worker of a process, as an earlier watch saw it."""
PAGES: Shape = {"path": is_text, "value": is_count}
"""A count of hugepages before we touched it."""


def misfit(found: Json, shape: Shape) -> str:
    """Say what is wrong with an object, in a sentence; "" for nothing."""
    lacking = sorted(key for key in shape if key not in found)
    if lacking:
        return "it lacks {}".format(", ".join(lacking))
    odd = sorted(key for key in shape if not shape[key](found[key]))
    return "what it says of {} cannot be".format(", ".join(odd)) if odd else ""


def rows_of(found: Any, shape: Shape) -> list[Json]:
    """Give the objects in a list that are as they must be; none where it is no list."""
    rows = found if isinstance(found, list) else []
    return [row for row in rows if isinstance(row, dict) and not misfit(row, shape)]
