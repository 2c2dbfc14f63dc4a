"""Laying one tree over another: mappings merge, lists and scalars replace, and what was replaced is remembered."""

from __future__ import annotations

from dataclasses import replace

from sgdeploy.profile.nodes import Node

_FREE_SPELLING = frozenset({"flags"})
"""Mappings whose keys may be spelled with dashes or underscores, so that either spelling overrides the other."""


def merge(lower: Node, upper: Node, *, key: str = "") -> Node:
    """Lay ``upper`` over ``lower``.

    A null in ``upper`` replaces whatever is below it, so that it removes; whether it stays visible as a value is
    decided when the plain tree is made.

    Args:
        lower: the tree with less say.
        upper: the tree with more say.
        key: the key that both stand under.
    """
    history = (*lower.history, lower.origin, *upper.history)
    if not isinstance(lower.content, dict) or not isinstance(upper.content, dict):
        return replace(upper, history=history)
    entries = dict(lower.content)
    free = {name: node for name, node in entries.items() if name not in upper.content}
    for name, node in upper.content.items():
        below = same_key(free, name) if key in _FREE_SPELLING and name not in entries else name
        if below in entries:
            merged = merge(entries[below], node, key=name)
            entries = {name if old == below else old: merged if old == below else kept for old, kept in entries.items()}
            free.pop(below, None)
        else:
            entries[name] = node
    return replace(upper, content=entries, history=history)


def same_key(entries: dict[str, Node], name: str) -> str:
    """Give the key of a flags mapping that ``name`` means, in whichever spelling; ``name`` where there is none."""
    if name in entries:
        return name
    wanted = name.replace("_", "-")
    return next((old for old in entries if old.replace("_", "-") == wanted), name)
