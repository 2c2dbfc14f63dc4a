"""Numbers in the words of messages, the same in every room: how many of what, and which numbers."""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def plural(count: int, noun: str) -> str:
    """``1 host``, ``2 hosts``, ``3 processes``."""
    if count == 1:
        return f"1 {noun}"
    ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count} {noun}{ending}"


def number_list(numbers: Iterable[int], *, strides: bool = False) -> str:
    """Write a set of numbers as the kernel, ``taskset`` and ``numactl`` read it: ``0-3,8``; "" for none.

    Args:
        numbers: in any order.
        strides: for people: runs of even steps become one part with its stride, ``20-590:38``.
    """
    parts: list[str] = []
    rest = sorted(set(numbers))
    while rest:
        length = _even(rest, strides=strides)
        first, last = rest[0], rest[length - 1]
        stride = (last - first) // (length - 1) if length > 1 else 1
        parts.append(str(first) if length == 1 else f"{first}-{last}" + (f":{stride}" if stride > 1 else ""))
        rest = rest[length:]
    return ",".join(parts)


def _even(numbers: Sequence[int], *, strides: bool) -> int:
    """Count how many of a sorted sequence's first numbers make one run; two are one only as neighbours."""
    steps = (later - earlier for earlier, later in pairwise(numbers))
    step = next(steps, 0)
    alike = 1 + sum(1 for _ in takewhile(lambda each: each == step, steps)) if step else 0
    return alike + 1 if step == 1 or (strides and alike > 1) else 1
