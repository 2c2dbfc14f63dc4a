"""Numbers in the words of messages, the same in every room: how many of what, and which numbers."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, TypeAlias

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


_DIGITS = re.compile(r"\d+")
_OUTSIDE = re.compile(r"\d+(?![^\[]*\])")
"""A number that is not part of a range already."""

_Shape: TypeAlias = "tuple[str, str]"
"""What stands before and after a number in a name."""


def name_list(names: Iterable[str]) -> str:
    """Write names of hosts, ranks or files short, in the range notation of inventories, each of them still there.

    ``10.0.0.[1-16]``; ``node[01-04,07], login``; ``native/n[01-16]/r[00-15]``; "" for none.
    """
    shown = list(dict.fromkeys(names))
    while len(folded := _fold(shown)) < len(shown):
        shown = folded
    return ", ".join(shown)


def _fold(names: Sequence[str]) -> list[str]:
    """Join names that differ in one number."""
    sizes = Counter(shape for name in names for shape in _shapes(name))
    groups: dict[_Shape | str, list[str]] = {}
    for name in names:
        # The number in whose place most others differ; of two such places, the later one.
        shape = max(_shapes(name), key=lambda each: sizes[each], default=name)
        groups.setdefault(shape, []).append(name)
    return [text for shape, members in groups.items() for text in _ranges(shape, members)]


def _shapes(name: str) -> Sequence[_Shape | str]:
    return [(name[: number.start()], name[number.end() :]) for number in _OUTSIDE.finditer(name)][::-1]


def _ranges(shape: _Shape | str, members: Sequence[str]) -> list[str]:
    if isinstance(shape, str) or len(members) == 1:
        return list(members)
    before, after = shape
    numbers = [name[len(before) : len(name) - len(after)] for name in members]
    if not any(number.startswith("0") and len(number) > 1 for number in numbers):
        return [f"{before}[{number_list(map(int, numbers))}]{after}"]
    # Leading zeros: numbers of the same width make a range, as in node[08-11].
    widths = sorted({len(number) for number in numbers})
    return [f"{before}[{_padded((n for n in numbers if len(n) == w), w)}]{after}" for w in widths]


def _padded(numbers: Iterable[str], width: int) -> str:
    return _DIGITS.sub(lambda found: found[0].zfill(width), number_list(map(int, numbers)))
