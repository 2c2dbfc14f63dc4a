"""Small forms that facts are read from and findings are written in: number lists, sizes, many similar paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sgdeploy.words import number_list

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_DIGITS = re.compile(r"\d+")


def read_numbers(text: str) -> tuple[int, ...]:
    """Read the kernel's list form, ``0-3,8``; an empty text is an empty list.

    Raises:
        ValueError: it is something else.
    """
    numbers: list[int] = []
    for part in text.strip().split(","):
        if part.strip():
            first, _, last = part.partition("-")
            numbers.extend(range(int(first), int(last or first) + 1))
    return tuple(numbers)


def write_size(size: int) -> str:
    """Write bytes for people: ``64 KiB``, ``4040 MiB``, ``1.5 GiB``; MiB up to 10 GiB, so that differences show."""
    for unit, name, upto in ((1, "bytes", KIB), (KIB, "KiB", MIB), (MIB, "MiB", 10 * GIB), (GIB, "GiB", None)):
        if upto is None or size < upto:
            return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
    raise AssertionError(size)


def write_page(size: int) -> str:
    """Write the size of a page: ``2 MiB``, ``512 MiB``, ``1 GiB``."""
    return f"{size // GIB} GiB" if size % GIB == 0 else write_size(size)


def fold(paths: Iterable[str]) -> str:
    """Join paths; those that differ in one number only become one: ``/opt/tp[0-15]/server``."""
    groups: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        groups.setdefault(_DIGITS.sub("#", path), []).append(path)
    return ", ".join(part for group in groups.values() for part in _fold_group(group))


def _fold_group(group: Sequence[str]) -> list[str]:
    columns = list(zip(*(_DIGITS.findall(path) for path in group), strict=True))
    varying = [index for index, column in enumerate(columns) if len(set(column)) > 1]
    padded = any(number != str(int(number)) for index in varying for number in columns[index])
    if len(varying) != 1 or padded:
        return list(group)
    span = number_list(int(number) for number in columns[varying[0]])
    match = list(_DIGITS.finditer(group[0]))[varying[0]]
    return [f"{group[0][: match.start()]}[{span}]{group[0][match.end() :]}"]
