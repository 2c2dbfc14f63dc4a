"""The environment of an instance: layers, search paths that are prepended, names that are ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgdeploy.plan.model import SecretRef
from sgdeploy.problems import KeyPath, Problem
from sgdeploy.profile.scalars import Secret
from sgdeploy.profile.variables import keeper

if TYPE_CHECKING:
    from sgdeploy.plan.model import EnvValue
    from sgdeploy.profile.schema import EnvSetting

SEARCH_PATHS = frozenset({"LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "INCLUDE", "PATH", "PYTHONPATH"})
"""Colon lists that are put before what a node has, never in place of it."""

TITLES = "SPT_NOENV"
"""Keeps the engine from wiping its environment out of /proc when it renames its processes, so that they are found."""


@dataclass(frozen=True)
class Environment:
    """What the processes of one instance export, or the router.

    Attributes:
        values: name → text or secret reference.
        prepend: search path → entries, first entry first.
        keys: names that the profile sets → where, the highest layer; they win over what differs from host to host.
        base: the platform's variables, below the profile's.
        search: the platform's search paths.
        layers: the profile's ``env`` mappings, lowest first: where each stands, and what it holds.
    """

    values: Mapping[str, EnvValue]
    prepend: Mapping[str, tuple[str, ...]]
    keys: Mapping[str, KeyPath]
    base: Mapping[str, str]
    search: Mapping[str, tuple[str, ...]]
    layers: tuple[tuple[KeyPath, Mapping[str, EnvSetting]], ...]


def environment(
    base: Mapping[str, str],
    prepend: Mapping[str, tuple[str, ...]],
    *layers: tuple[KeyPath, Mapping[str, EnvSetting]],
) -> Environment:
    """Lay a profile's ``env`` mappings over a platform's variables and search paths; lowest first, None removes.

    Args:
        base: the platform's variables.
        prepend: the platform's search paths.
        layers: where each mapping stands, and what it holds.
    """
    given: dict[str, EnvSetting] = {}
    keys: dict[str, KeyPath] = {}
    for path, layer in layers:
        given |= layer
        keys |= {name: (*path, name) for name in layer}
    values: dict[str, EnvValue] = dict(base)
    paths = dict(prepend)
    for name, setting in given.items():
        if setting is None:
            values.pop(name, None)
            paths.pop(name, None)
        elif isinstance(setting, Secret):
            values[name] = SecretRef(secret=f"env:{setting.name}")
        elif name in SEARCH_PATHS:
            paths[name] = (*_entries(text(setting)), *paths.get(name, ()))
        else:
            values[name] = text(setting)
    values[TITLES] = "1"
    return Environment(values, paths, keys, base, prepend, layers)


def text(setting: str | float | bool) -> str:
    """Write a YAML scalar as the engine's variables expect it: true and false become 1 and 0."""
    if isinstance(setting, bool):
        return "1" if setting else "0"
    return str(setting)


def reserved_problems(env: Mapping[str, Any], path: KeyPath) -> list[Problem]:
    """Name the variables of an ``env`` mapping that a profile cannot set, and the secrets that no script can take."""
    problems = []
    for name, setting in env.items():
        at = (*path, name)
        owner = keeper(str(name))
        if name == TITLES and setting not in {1, "1"}:
            message = f"`{TITLES}` is always 1: without it the engine's processes cannot be told from others"
            problems.append(Problem(message, "remove it", at, "key", code="env-reserved"))
        elif owner is not None:
            message = f"`{name}` belongs to {owner}, so a value would not reach the process"
            problems.append(Problem(message, "remove it, or use another name", at, "key", code="env-reserved"))
        if isinstance(setting, Secret) and keeper(setting.name) is not None:
            message = f"no script can take a secret from `{setting.name}`: it belongs to {keeper(setting.name)}"
            hint = "export the secret under another name, and write that one here"
            problems.append(Problem(message, hint, at, code="env-reserved"))
    return problems


def _entries(colon_list: str) -> tuple[str, ...]:
    """Split a search path; empty entries, which would mean the current folder, are dropped."""
    return tuple(entry for entry in colon_list.split(":") if entry)
