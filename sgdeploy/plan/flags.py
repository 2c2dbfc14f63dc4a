"""Flags of instances and of the router: which layer said what, which are the plan's own, and where secrets go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sgdeploy.problems import KeyPath, Problem
from sgdeploy.profile.messages import dotted
from sgdeploy.profile.scalars import Secret
from sgdeploy.profile.topologies import written

if TYPE_CHECKING:
    from sgdeploy.engine.catalogue import Catalogue
    from sgdeploy.profile.schema import FlagValue

_OWNED: Mapping[str, str] = {
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
    "model-path": "set `model.path`, or `model_path` of the instance",
    "served-model-name": "set `model.served_name`",
    "disaggregation-mode": "`topology` decides",
    "disaggregation-bootstrap-port": "set `bootstrap_port` of the instance",
    "disaggregation-ib-device": "set `ib_devices` of the hosts in the inventory",
    "config": "write the file's settings as flags, so that they are checked with the others",
}

_ROUTER_OWNED: Mapping[str, str] = {
    "host": "set `router.host`; its data address comes from the inventory",
    "port": "set `router.port`",
    "policy": "set `router.policy`",
    "prefill-policy": "set `router.prefill_policy`",
    "decode-policy": "set `router.decode_policy`",
    "bucket-adjust-interval-secs": "set `router.bucket.adjust_interval_secs`",
    "prefill-short-count": "set `router.groups.short_count`",
    "prefill-length-threshold": "set `router.groups.length_threshold`",
    "pd-disaggregation": "`topology` decides",
    "prefill": "the prefill instances decide",
    "decode": "the decode instances decide",
    "worker-urls": "the prefill and decode instances decide",
    "mini-lb": "it is a toy for debugging; leave it out",
    "service-discovery": "the prefill and decode instances decide",
}

_ON_THE_ENGINES = "keep the key on the engines (`engine.flags.api-key`): the router hands on what clients send"
_ROUTER_SECRETS: Mapping[str, str] = {
    "api-key": _ON_THE_ENGINES,
    "control-plane-api-keys": "leave it out, and let nobody but the hosts reach the router's port",
    "oracle-password": "write `env: {ATP_PASSWORD: ${env:NAME}}` in `router`",
    "postgres-db-url": "write `env: {POSTGRES_DB_URL: ${env:NAME}}` in `router`",
    "redis-url": "write `env: {REDIS_URL: ${env:NAME}}` in `router`",
}


@dataclass(frozen=True)
class Rules:
    """What a profile may not set as a flag of a program.

    Attributes:
        owned: flags that follow from the rest of a profile: canonical name → which key to set instead.
        secret: flags whose value must not stand in a profile nor on a command line.
        shown: flags with secret values that the program takes from its command line only, where everybody on the host
            reads them: canonical name → what to do instead.
    """

    owned: Mapping[str, str]
    secret: frozenset[str] = frozenset()
    shown: Mapping[str, str] = field(default_factory=dict)


ENGINE_RULES = Rules(_OWNED, frozenset({"api-key", "admin-api-key", "ssl-keyfile-password"}))
ROUTER_RULES = Rules(_ROUTER_OWNED, shown=_ROUTER_SECRETS)
ROUTER_FLAGS: KeyPath = ("router", "flags")
"""The one ``flags`` mapping that is not about the engine."""


@dataclass(frozen=True)
class Layer:
    """One layer of flags: a ``flags`` mapping of a profile, normalised, or what is set below it.

    Attributes:
        source: who sets them: the mapping's dotted key, ``platform cpu``, ``sgdeploy``.
        values: canonical name → value; None removes what lower layers set.
        keys: canonical name → where a ``flags`` mapping of the profile says it, as written.
        follows: canonical name → the key of another section that the value follows from.
    """

    source: str
    values: Mapping[str, FlagValue]
    keys: Mapping[str, KeyPath] = field(default_factory=dict)
    follows: Mapping[str, KeyPath] = field(default_factory=dict)


def sections(tree: Mapping[str, Any], key: str) -> dict[KeyPath, Mapping[str, Any]]:
    """Find every ``flags`` (or ``env``) mapping of a profile, whatever else is wrong with its tree."""
    router = tree.get("router")
    servers = router.get("tokenizers") if isinstance(router, Mapping) else None
    candidates: list[tuple[KeyPath, Any]] = [(("engine",), tree.get("engine"))]
    candidates += [(spot.path, instance) for spot, instance in written(tree)]
    candidates += [(("router",), router), (("router", "tokenizers"), servers)]
    found: dict[KeyPath, Mapping[str, Any]] = {}
    for path, section in candidates:
        mapping = section.get(key) if isinstance(section, Mapping) else None
        if isinstance(mapping, Mapping):
            at: KeyPath = (*path, key)
            found[at] = mapping
    return found


def check_layer(
    catalogue: Catalogue, rules: Rules, flags: Mapping[str, Any], path: KeyPath
) -> tuple[Layer, list[Problem]]:
    """Normalise one ``flags`` mapping and name everything that is wrong with it."""
    problems: list[Problem] = []
    free: dict[str, Any] = {}
    keys: dict[str, KeyPath] = {}
    for raw, value in flags.items():
        name = catalogue.name_of(str(raw)) or ""
        refused = _refused(catalogue, rules, name, raw, value, (*path, raw))
        if refused is None:
            free[raw] = value
            keys.setdefault(name, (*path, raw))
        else:
            problems.append(refused)
    values, wrong = catalogue.check(free, path)
    return Layer(dotted(path), values, keys), [*problems, *wrong]


def _refused(catalogue: Catalogue, rules: Rules, name: str, raw: str, value: object, at: KeyPath) -> Problem | None:
    if name in rules.owned:
        message = f"`{raw}` is set by the plan and cannot be a flag"
        return Problem(message, rules.owned[name], at, "key", code="flag-owned")
    if name in rules.shown and value is not None:
        message = f"{catalogue.title} takes `{name}` from its command line, where every user of the host can read it"
        return Problem(message, rules.shown[name], at, "key", code="flag-secret-shown")
    if name in rules.secret and isinstance(value, str):
        message = f"the value of `{name}` would stand in the profile and on the command line"
        hint = f"write `{raw}: ${{env:NAME}}` and export NAME before `sgdeploy up`"
        return Problem(message, hint, at, code="flag-secret-plain")
    return None


def merge_flags(layers: Iterable[Layer]) -> dict[str, FlagValue]:
    """Lay flags over each other, lowest first; None removes."""
    merged: dict[str, FlagValue] = {}
    for layer in layers:
        merged |= layer.values
    return {name: value for name, value in merged.items() if value is not None}


def split_secrets(flags: Mapping[str, FlagValue]) -> tuple[dict[str, FlagValue], dict[str, Secret]]:
    """Part flags into those for the command line and those whose value is a secret."""
    secrets = {name: value for name, value in flags.items() if isinstance(value, Secret)}
    return {name: value for name, value in flags.items() if name not in secrets}, secrets
