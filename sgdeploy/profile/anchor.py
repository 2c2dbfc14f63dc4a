"""Making references to files absolute, while it is still known which file each was written in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sgdeploy.profile.locate import locate

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath
    from sgdeploy.profile.nodes import Node


def anchor(node: Node, path: KeyPath = ()) -> Node:
    """Return the tree with ``inventory: PATH`` and every ``{file: PATH}`` of hosts and groups made absolute.

    Places stay where they are; a text is no longer the one in the source, so parts of it cannot be pointed at.
    """
    content = node.content
    if isinstance(content, dict):
        return replace(node, content={key: anchor(item, (*path, key)) for key, item in content.items()})
    if isinstance(content, str) and content and _names_file(path):
        return replace(node, content=str(locate(content, node.folder, "inventories")), text_at=None)
    return node


def _names_file(path: KeyPath) -> bool:
    if path == ("inventory",):
        return True
    if path[-1:] != ("file",) or {"flags", "env", "platform_settings"} & set(path):
        return False
    return path[-2] == "hosts" or path[-3:-2] == ("groups",)
