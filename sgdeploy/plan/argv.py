"""A command line taken apart again: the program, and its long flags with their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def split(argv: Sequence[str]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Part a command line before each long flag.

    Returns:
        The words before the first long flag, and flag as written (``--page-size``) → all words behind it, those of a
        repeated flag one after the other. A switch has no words; ``--a=b`` is the flag ``--a`` with the word ``b``.
    """
    program: list[str] = []
    flags: dict[str, list[str]] = {}
    words = program
    for word in argv:
        if word.startswith("--") and word != "--":
            name, equals, value = word.partition("=")
            words = flags.setdefault(name, [])
            words += [value] if equals else []
        else:
            words.append(word)
    return tuple(program), {name: tuple(found) for name, found in flags.items()}
