"""``${env:NAME}`` in a tree becomes a ``Secret``; only whole values of flags and environment variables may be one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from sgdeploy.problems import Problem
from sgdeploy.profile.scalars import Secret

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath
    from sgdeploy.profile.nodes import Node

_WHOLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_OPEN = re.compile(r"(?<!\$)\$\{env:[^}]*\}?")
_SETTINGS = frozenset({"flags", "env"})
_SECRET_WORDS = frozenset({"key", "apikey", "token", "password", "passwd", "secret", "credential", "credentials"})


def resolve(root: Node) -> tuple[Node, list[Problem]]:
    """Turn references into secrets and ``$${`` into ``${``; tell of references that stand where none may.

    Values are never read here.
    """
    problems: list[Problem] = []
    return _resolve(root, (), problems), problems


def _resolve(node: Node, path: KeyPath, problems: list[Problem]) -> Node:
    content = node.content
    if isinstance(content, dict):
        return replace(node, content={key: _resolve(item, (*path, key), problems) for key, item in content.items()})
    if isinstance(content, list):
        items = [_resolve(item, (*path, index), problems) for index, item in enumerate(content)]
        return replace(node, content=items)
    if not isinstance(content, str):
        return node
    whole = _WHOLE.fullmatch(content)
    if whole is not None:
        if _may_hold(path):
            return replace(node, content=Secret(whole[1]))
        hint = "secrets are values in `env` or `flags`; for the text itself write $${env:…}"
        problems.append(Problem(f"a secret ({content}) cannot stand here", hint, path, code="secret-place"))
        return node
    part = _OPEN.search(content)
    if part is not None:
        problems.append(_bad_part(content, part, path))
    elif _may_hold(path) and content and not content.startswith(("/", "~")):  # a path to a key is no key
        problems.extend(_literal_secret(path))
    return replace(node, content=content.replace("$${", "${")) if "$${" in content else node


def _may_hold(path: KeyPath) -> bool:
    return len(path) > 1 and path[-2] in _SETTINGS and path[0] != "platform_settings"


def _bad_part(content: str, part: re.Match[str], path: KeyPath) -> Problem:
    span = (part.start(), len(part.group()))
    if part.group() == content:
        message = f"`{content}` names no environment variable"
        hint = "write ${env:NAME} with letters, digits and underscores"
    else:
        message = f"a secret ({part.group()}) is a whole value and cannot be part of a longer text"
        hint = "put the whole text into the variable; for the text itself write $${env:…}"
    return Problem(message, hint, path, code="secret-place", span=span)


def _literal_secret(path: KeyPath) -> list[Problem]:
    name = str(path[-1])
    words = re.split(r"[-_.]", name.lower())
    if words[-1] not in _SECRET_WORDS:
        return []
    variable = name.upper().replace("-", "_")
    message = f"`{name}` looks like a secret, and its value stands in the file"
    return [
        Problem(
            message, f"write ${{env:{variable}}} and export {variable}", path, level="warning", code="secret-literal"
        )
    ]
