"""Small forms that facts are read from and findings are written in: number lists and sizes."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


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
