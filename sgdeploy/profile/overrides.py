"""``--set a.b.c=VALUE``: one value laid over the merged files, with places that point into the argument."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sgdeploy.problems import COMMAND_LINE, Place, Problem
from sgdeploy.profile.compose import compose
from sgdeploy.profile.merge import merge, same_key
from sgdeploy.profile.nodes import Node
from sgdeploy.profile.source import Source, split_lines

if TYPE_CHECKING:
    from pathlib import Path

    from sgdeploy.problems import KeyPath

_KEY = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^.=\s"']+))\s*""")
_EXAMPLE = "write --set native.port=30000"


@dataclass(frozen=True)
class Override:
    """One parsed argument: the keys, the place of each, and the value."""

    keys: tuple[str, ...]
    places: tuple[Place, ...]
    value: Node


def split_keys(text: str) -> KeyPath | None:
    """Read ``a.b[2]."c.d"`` as people write a key, None where it is none."""
    keys: list[str | int] = []
    position = 0
    while position < len(text):
        match = _KEY.match(text, position)
        if match is None:
            return None
        name = next(group for group in match.groups() if group is not None)
        bare = name if match[3] is not None else ""
        name, *items = re.split(r"\[(\d+)\]", bare) if bare.endswith("]") else [name]
        keys += [name, *(int(item) for item in items if item)]
        position = match.end() + 1
        if match.end() < len(text) and text[match.end()] != ".":
            return None
    return tuple(keys) or None


def parse(text: str, number: int, folder: Path) -> tuple[Override | None, list[Problem]]:
    """Read one argument.

    Args:
        text: ``a.b.c=VALUE``; a key that holds dots is quoted; VALUE is YAML.
        number: which ``--set`` it is, from 1; shown as its line.
        folder: absolute folder that paths in the value count from.

    Returns:
        The override, or None where it cannot be read, and the problems.
    """
    whole = Source(COMMAND_LINE, text, split_lines(text), folder, first_line=number)
    keys: list[str] = []
    places: list[Place] = []
    position = 0
    while True:
        match = _KEY.match(text, position)
        if match is None or match.end() == len(text) or text[match.end()] not in ".=":
            return None, [_bad_key(text, position, whole)]
        keys.append(next(group for group in match.groups() if group is not None))
        places.append(whole.place_at(position, len(match.group().rstrip())))
        position = match.end() + 1
        if text[match.end()] == "=":
            break
    if keys[0] == "extends":
        problem = Problem("`extends` cannot be set here", "use --overlay FILE", place=places[0], code="set-extends")
        return None, [problem]
    source = replace(whole, text=text[position:], indent=position)
    value, problems = compose(source)
    if value is None:
        if problems:
            return None, problems
        value = Node(None, source.place(0, 0), None, folder)
    return Override(tuple(keys), tuple(places), value), problems


def _bad_key(text: str, position: int, whole: Source) -> Problem:
    place = whole.place_at(min(position, max(0, len(text) - 1)))
    if "=" not in text:
        return Problem(f"`{text}` has no `=VALUE`", _EXAMPLE, place=whole.place_at(0, len(text)), code="set-syntax")
    return Problem("a key is missing or badly quoted here", _EXAMPLE, place=place, code="set-syntax")


def apply(root: Node, override: Override) -> tuple[Node, Problem | None]:
    """Lay one override over a tree; where its keys lead nowhere the tree comes back unchanged with the problem."""
    try:
        return _put(root, override, 0), None
    except _NowhereError as error:
        return root, error.problem


class _NowhereError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _put(node: Node, override: Override, depth: int) -> Node:
    if depth == len(override.keys):
        value = replace(override.value, key=override.places[-1])
        return merge(node, value, key=override.keys[-1])
    key, place = override.keys[depth], override.places[depth]
    above = ".".join(override.keys[:depth])
    content = node.content
    if isinstance(content, list):
        index = _index(key, len(content), above, place)
        items = list(content)
        items[index] = _put(items[index], override, depth + 1)
        return replace(node, content=items)
    if content is not None and not isinstance(content, dict):
        text = f"`{above}` is a single value, it has no key `{key}`"
        raise _NowhereError(Problem(text, place=place, code="set-nowhere"))
    entries = dict(content or {})
    name = same_key(entries, key) if depth and override.keys[depth - 1] == "flags" else key
    entries[name] = _put(entries[name], override, depth + 1) if name in entries else _fresh(override, depth)
    base = node if content is not None else replace(node, place=place, history=(*node.history, node.origin))
    return replace(base, content=entries)


def _fresh(override: Override, depth: int) -> Node:
    """Make the mappings that lead to a value where the files have none."""
    node = replace(override.value, key=override.places[-1])
    for level in range(len(override.keys) - 1, depth, -1):
        node = Node({override.keys[level]: node}, override.places[level], override.places[level - 1], node.folder)
    return node


def _index(key: str, count: int, above: str, place: Place) -> int:
    if key.isascii() and key.isdecimal() and int(key) < count:
        return int(key)
    hint = f"set the whole list: --set '{above}=[…]'"
    message = f"`{above}` is a list of {count}; `{key}` is no item of it (counted from 0)"
    raise _NowhereError(Problem(message, hint, place=place, code="set-nowhere"))
