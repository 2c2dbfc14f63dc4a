"""Finding the spot in the files that a problem is about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath, Place, Problem
    from sgdeploy.profile.nodes import Node, Origin


class Places:
    """The places of a merged tree: which file and line each key and value came from."""

    def __init__(self, root: Node) -> None:
        """Keep the tree whose places are asked for."""
        self._root = root

    def place(self, problem: Problem) -> Problem:
        """Fill in where a problem stands; one that has a place already stays as it is.

        A path that is not in the tree (a missing key, a default) is placed at the key of its nearest ancestor that is.
        """
        if problem.place is not None:
            return problem
        node, whole = self._nearest(problem.path)
        if not whole or problem.at == "key":
            return problem.at_place(_key_place(node))
        return problem.at_place(_value_place(node, problem.span))

    def key(self, path: KeyPath) -> Place | None:
        """Give the place of a key (of the item itself in a list), None where the path is not in the tree."""
        node, whole = self._nearest(path)
        return _key_place(node) if whole else None

    def value(self, path: KeyPath) -> Place | None:
        """Give the place of a value, None where the path is not in the tree."""
        node, whole = self._nearest(path)
        return _value_place(node, None) if whole else None

    def origins(self, path: KeyPath) -> tuple[Origin, ...]:
        """Tell every place that set a value, lowest layer first; the last one holds. Empty where nobody did."""
        node, whole = self._nearest(path)
        return (*node.history, node.origin) if whole else ()

    def _nearest(self, path: KeyPath) -> tuple[Node, bool]:
        node = self._root
        for key in path:
            below = node.child(key)
            if below is None and isinstance(node.content, dict) and isinstance(key, str):
                wanted = key.replace("_", "-")
                below = next((kept for name, kept in node.content.items() if name.replace("_", "-") == wanted), None)
            if below is None:
                return node, False
            node = below
        return node, True


def _key_place(node: Node) -> Place:
    return node.key or node.place


def _value_place(node: Node, span: tuple[int, int] | None) -> Place:
    if span is not None and node.text_at is not None:
        offset, width = span
        return replace(node.place, column=node.place.column + node.text_at + offset, width=max(1, width))
    if node.spread and node.key is not None:
        return node.key
    return node.place
