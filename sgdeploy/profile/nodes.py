"""The tree of a YAML file that remembers where each key and value stands, and what it replaced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sgdeploy.profile.scalars import Secret

if TYPE_CHECKING:
    from pathlib import Path

    from sgdeploy.problems import KeyPath, Place

Scalar: TypeAlias = "str | int | float | bool | Secret | None"

_KEEPS_NULL = frozenset({"flags", "env", "platform_settings"})
"""Mappings with a layer below the file (platform defaults): null must reach that layer to remove from it."""


@dataclass(frozen=True)
class Origin:
    """One place that set a value: where, and to what (a secret stays a reference)."""

    place: Place
    value: Any


@dataclass(frozen=True)
class Node:
    """A value with its places.

    Attributes:
        content: a scalar, a dict of nodes by key, or a list of nodes.
        place: where the value stands.
        key: where its key stands; None for list items and the top.
        folder: absolute folder of the file that holds it; paths in it count from there.
        text_at: characters between ``place`` and the first character of a text (0 plain, 1 quoted); None where the
            source differs from the text (escapes, several lines), so that parts of it cannot be pointed at.
        spread: whether the value is a block on lines of its own, so that its key shows it better than its start.
        history: what set it before, lowest layer first, itself not counted.
    """

    content: Scalar | dict[str, Node] | list[Node]
    place: Place
    key: Place | None
    folder: Path
    text_at: int | None = None
    spread: bool = False
    history: tuple[Origin, ...] = field(default=())

    @property
    def origin(self) -> Origin:
        """The place of its key (or of itself) and its plain value."""
        return Origin(self.key or self.place, plain(self))

    def child(self, key: str | int) -> Node | None:
        """Give one entry of a mapping or a list, None where there is none."""
        if isinstance(self.content, dict) and isinstance(key, str):
            return self.content.get(key)
        if isinstance(self.content, list) and isinstance(key, int) and 0 <= key < len(self.content):
            return self.content[key]
        return None

    def at(self, path: KeyPath) -> Node | None:
        """Give the node at a path, None where there is none."""
        node: Node | None = self
        for key in path:
            node = None if node is None else node.child(key)
        return node


def plain(node: Node, *, nulls: bool = False) -> Any:
    """Give the values alone. A null entry of a mapping is left out, except inside flags, env and platform settings.

    Args:
        node: the tree.
        nulls: whether null entries are kept from here on down.
    """
    content = node.content
    if isinstance(content, list):
        return [plain(item, nulls=nulls) for item in content]
    if isinstance(content, dict):
        return {
            key: plain(item, nulls=nulls or key in _KEEPS_NULL)
            for key, item in content.items()
            if nulls or item.content is not None
        }
    return content
