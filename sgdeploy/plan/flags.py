"""The flags of an instance: which layer said what, which are the plan's own, and where secrets go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgdeploy.problems import KeyPath, Problem
from sgdeploy.profile.scalars import Secret

if TYPE_CHECKING:
    from sgdeploy.engine.catalogue import Catalogue
    from sgdeploy.profile.schema import FlagValue

OWNED: Mapping[str, str] = {
    "host": "each host's data address comes from the inventory (`address`)",
    "port": "set `port` of the instance",
    "nnodes": "the number of `hosts` of the instance decides",
    "node-rank": "the order of `hosts`, and `leader`, decide",
    "dist-init-addr": "set `rendezvous.port` of the instance; the address is the leader's",
    "tp-rank-in-node": "`engine.launch: rank` gives each rank its own",
    "tp-size": "set `parallel.tp` of the instance",
    "pp-size": "set `parallel.pp` of the instance",
    "dp-size": "set `parallel.dp` of the instance",
    "ep-size": "set `parallel.ep` of the instance",
    "model-path": "set `model.path`",
    "served-model-name": "set `model.served_name`",
    "disaggregation-mode": "`topology` decides",
    "disaggregation-bootstrap-port": "set `bootstrap_port` of the instance",
    "disaggregation-ib-device": "set `ib_devices` of the hosts in the inventory",
    "config": "write the file's settings as flags, so that they are checked with the others",
}
"""Flags that follow from the rest of a profile: canonical name → which key to set instead."""

SECRET_FLAGS = frozenset({"api-key", "admin-api-key", "ssl-keyfile-password"})
"""Flags whose value must not stand in a profile nor on a command line."""


@dataclass(frozen=True)
class Layer:
    """One ``flags`` mapping of a profile, normalised.

    Attributes:
        path: where it stands.
        values: canonical name → value; None removes what lower layers set.
        keys: canonical name → key path as written, for later problems.
    """

    path: KeyPath
    values: Mapping[str, FlagValue]
    keys: Mapping[str, KeyPath]


def sections(tree: Mapping[str, Any], key: str) -> dict[KeyPath, Mapping[str, Any]]:
    """Find every ``flags`` (or ``env``) mapping of a native profile, whatever else is wrong with its tree."""
    native = tree.get("native")
    candidates: list[tuple[KeyPath, Any]] = [(("engine",), tree.get("engine")), (("native",), native)]
    if isinstance(native, Mapping) and "hosts" not in native:
        candidates.extend((("native", name), instance) for name, instance in native.items())
    found: dict[KeyPath, Mapping[str, Any]] = {}
    for path, section in candidates:
        mapping = section.get(key) if isinstance(section, Mapping) else None
        if isinstance(mapping, Mapping):
            at: KeyPath = (*path, key)
            found[at] = mapping
    return found


def check_layer(catalogue: Catalogue, flags: Mapping[str, Any], path: KeyPath) -> tuple[Layer, list[Problem]]:
    """Normalise one ``flags`` mapping and name everything that is wrong with it."""
    problems: list[Problem] = []
    free: dict[str, Any] = {}
    keys: dict[str, KeyPath] = {}
    for raw, value in flags.items():
        name = catalogue.name_of(str(raw)) or ""
        at = (*path, raw)
        if name in OWNED:
            message = f"`{raw}` is set by the plan and cannot be a flag"
            problems.append(Problem(message, OWNED[name], at, "key", code="flag-owned"))
            continue
        if name in SECRET_FLAGS and isinstance(value, str):
            message = f"the value of `{name}` would stand in the profile and on the command line"
            hint = f"write `{raw}: ${{env:NAME}}` and export NAME before `sgdeploy up`"
            problems.append(Problem(message, hint, at, code="flag-secret-plain"))
            continue
        free[raw] = value
        keys.setdefault(name, at)
    values, wrong = catalogue.check(free, path)
    return Layer(path, values, keys), [*problems, *wrong]


def merge_flags(*layers: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """Lay flags over each other, lowest first; None removes."""
    merged: dict[str, FlagValue] = {}
    for layer in layers:
        merged |= layer
    return {name: value for name, value in merged.items() if value is not None}


def split_secrets(flags: Mapping[str, FlagValue]) -> tuple[dict[str, FlagValue], dict[str, Secret]]:
    """Part flags into those for the command line and those whose value is a secret."""
    secrets = {name: value for name, value in flags.items() if isinstance(value, Secret)}
    return {name: value for name, value in flags.items() if name not in secrets}, secrets
