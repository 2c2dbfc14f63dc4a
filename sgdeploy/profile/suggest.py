"""Guessing what a mistyped word was meant to be."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LIKENESS = 0.7
"""How alike two words must be (0 to 1) before we dare to suggest one for the other."""


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """Find the candidate that ``word`` most likely stands for.

    Case, dashes and underscores do not count: ``Served-Name`` finds ``served_name``.

    Returns:
        The candidate as it is written, or None where nothing is near enough to be helpful.
    """
    wanted = _plain(word)
    best: str | None = None
    best_likeness = _LIKENESS
    for candidate in sorted(set(candidates)):
        if candidate == word:
            continue
        likeness = SequenceMatcher(None, wanted, _plain(candidate), autojunk=False).ratio()
        if likeness > best_likeness or (likeness == best_likeness and best is None):
            best, best_likeness = candidate, likeness
    return best


def nearest(word: str, candidates: Iterable[str], most: int = 10) -> str:
    """List candidates for people, the likest first, and count those that would make the list too long."""
    likeness = {name: SequenceMatcher(None, _plain(word), _plain(name), autojunk=False).ratio() for name in candidates}
    ordered = sorted(likeness, key=lambda name: (-round(likeness[name], 1), name))
    more = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + more


def _plain(word: str) -> str:
    return word.lower().replace("_", "-").strip("-")
