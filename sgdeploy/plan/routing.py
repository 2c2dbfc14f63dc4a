"""The router and the HTTP servers beside it, laid out: whom it routes to, its ports, flags and environment."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from sgdeploy.plan.endpoint import endpoint
from sgdeploy.plan.environment import Environment, environment
from sgdeploy.plan.flags import Layer, merge_flags
from sgdeploy.plan.layout import flag_path
from sgdeploy.plan.model import Worker
from sgdeploy.platforms.base import HTTP_PORT
from sgdeploy.profile.router_schema import Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sgdeploy.plan.layout import Context, Layout
    from sgdeploy.problems import KeyPath
    from sgdeploy.profile.inventory import Host
    from sgdeploy.profile.router_schema import Router
    from sgdeploy.profile.schema import FlagValue

METRICS_PORT = 29000
"""The router's own default port for metrics; a taken one ends it with exit code 1 (router 0.3.2)."""

TOKENIZER_PORT = 30001
"""Port of the first HTTP server beside the router; the others follow."""

HEALTH_INTERVAL = 10
"""Seconds between two looks of the router at a worker. It gives one up after three misses, so a dead one takes half a
minute; its own default of 60 s would take three minutes."""

HEALTH_TIMEOUT = 30
"""Seconds that the router waits for a worker's health: a hung engine itself takes 20 s to say 503 (engine 0.5.23)."""

SECTION_KEYS: Mapping[str, KeyPath] = {
    "policy": ("policy",),
    "prefill-policy": ("prefill_policy",),
    "decode-policy": ("decode_policy",),
    "balance-abs-threshold": ("bucket", "balance_abs_threshold"),
    "balance-rel-threshold": ("bucket", "balance_rel_threshold"),
    "bucket-adjust-interval-secs": ("bucket", "adjust_interval_secs"),
    "prefill-short-count": ("groups", "short_count"),
    "prefill-length-threshold": ("groups", "length_threshold"),
}
"""Flags of the router → the key of its section that stands for each."""

INHERITED = (
    "api-key",
    "admin-api-key",
    "chat-template",
    "context-length",
    "reasoning-parser",
    "tokenizer-mode",
    "tokenizer-path",
    "tool-call-parser",
)
"""Flags that an HTTP server beside the router takes over from its instance, since they are about requests."""


@dataclass(frozen=True)
class Tokenizer:
    """An HTTP server beside the router that tokenizes for one instance.

    Attributes:
        layout: the instance.
        port: its HTTP port.
        flags: merged over all layers, canonical names.
        layers: where its flags come from, lowest first.
        env: its environment.
    """

    layout: Layout
    port: int
    flags: Mapping[str, FlagValue]
    layers: tuple[Layer, ...]
    env: Environment

    @property
    def name(self) -> str:
        """Its name: ``prefill-short`` for the instance ``prefill/short``."""
        return self.layout.unit.replace("/", "-")

    @property
    def unit(self) -> str:
        """Its selector: ``tokenizer/prefill-short``."""
        return f"tokenizer/{self.name}"


@dataclass(frozen=True)
class Routing:
    """The router with everything derived, before its process is written out.

    Attributes:
        spec: what the profile says.
        host: where it runs.
        port: its HTTP port.
        metrics: its port for metrics.
        workers: whom it routes to, prefill in the order of the buckets, then decode.
        tokenizers: the servers beside it; empty where tokenizing happens in the instances.
        flags: merged over all layers, canonical names, without those that name workers and addresses.
        layers: where its flags come from, lowest first.
        env: its environment.
        cores: where it runs, None for anywhere.
    """

    spec: Router
    host: Host
    port: int
    metrics: int
    workers: tuple[Worker, ...]
    tokenizers: tuple[Tokenizer, ...]
    flags: Mapping[str, FlagValue]
    layers: tuple[Layer, ...]
    env: Environment
    cores: tuple[int, ...] | None

    def of_role(self, role: str) -> tuple[Worker, ...]:
        """Give the workers of one role."""
        return tuple(worker for worker in self.workers if worker.role == role)


def lay_out_router(context: Context, spec: Router, host: Host, layouts: Sequence[Layout]) -> Routing:
    """Derive everything about the router in front of these instances."""
    tokenizers = _tokenizers(context, spec, layouts) if context.tokenizer_apart else ()
    layers = (*_lower_layers(context, spec), *context.layers_at(("router", "flags")))
    flags = merge_flags(layers)
    metrics = flags.get("prometheus-port", METRICS_PORT)
    launch = context.launch("router")
    base, prepend = context.platform.env(launch), context.platform.env_prepend(launch)
    cores = context.platform.router_cores if spec.cores is None else spec.cores or None
    return Routing(
        spec=spec,
        host=host,
        port=spec.port or HTTP_PORT,
        metrics=metrics if isinstance(metrics, int) else METRICS_PORT,
        workers=_workers(host, layouts, tokenizers),
        tokenizers=tokenizers,
        flags=flags,
        layers=layers,
        env=environment(base, prepend, context.engine_env, (("router", "env"), spec.env)),
        cores=cores,
    )


def prefill_policy(context: Context, spec: Router) -> str | None:
    """Give the policy among prefill instances as far as the profile or the topology says it."""
    default = "bucket" if context.profile.topology == "two-bucket-prefill" else spec.policy
    return spec.prefill_policy or default


def _lower_layers(context: Context, spec: Router) -> tuple[Layer, ...]:
    """Give what the platform, our own defaults and the keys of the section set, before the profile's ``flags``."""
    ours: dict[str, FlagValue] = {
        "health-check-interval-secs": HEALTH_INTERVAL,
        "health-check-timeout-secs": HEALTH_TIMEOUT,
        # It never tries a worker again after this limit, and stays up (router 0.3.2).
        "worker-startup-timeout-secs": ceil(context.profile.health.timeout),
    }
    follows: dict[str, KeyPath] = {"worker-startup-timeout-secs": ("health", "timeout")}
    if context.profile.engine.executable == "rehearsal":
        ours["model-path"] = None  # its tokenizer would be read, and the model need not be there
        follows["model-path"] = ("engine", "executable")
    said = _section_flags(context, spec)
    return (
        context.platform_layer(context.launch("router")),
        Layer("sgdeploy", ours, follows=follows),
        Layer("router", said, follows={name: ("router", *SECTION_KEYS[name]) for name in said}),
    )


def _section_flags(context: Context, spec: Router) -> dict[str, FlagValue]:
    """Give the flags that keys of the section stand for."""
    asked = prefill_policy(context, spec)
    flags: dict[str, FlagValue] = {"policy": spec.policy, "decode-policy": spec.decode_policy}
    if asked != spec.policy:
        flags["prefill-policy"] = asked
    if asked == "bucket":
        bucket = spec.bucket or Bucket()
        flags["balance-abs-threshold"] = bucket.balance_abs_threshold
        flags["balance-rel-threshold"] = bucket.balance_rel_threshold
        flags["bucket-adjust-interval-secs"] = bucket.adjust_interval_secs
        if spec.groups is not None:
            flags["prefill-short-count"] = spec.groups.short_count
            flags["prefill-length-threshold"] = spec.groups.length_threshold
    return {name: value for name, value in flags.items() if value is not None}


def _tokenizers(context: Context, spec: Router, layouts: Sequence[Layout]) -> tuple[Tokenizer, ...]:
    launch, own = context.launch("tokenizer"), context.layers_at(("router", "tokenizers", "flags"))
    platform, first = context.platform, spec.tokenizers.port or TOKENIZER_PORT
    asked = (("router", "tokenizers", "env"), spec.tokenizers.env)
    env = environment(platform.env(launch), platform.env_prepend(launch), context.engine_env, asked)
    found = []
    for number, layout in enumerate(layouts):
        layers = (context.platform_layer(launch), _inherited(layout), *own)
        found.append(Tokenizer(layout, first + number, merge_flags(layers), layers, env))
    return tuple(found)


def _inherited(layout: Layout) -> Layer:
    """Give what a server beside the router takes over from its instance."""
    flags = {name: layout.flags[name] for name in INHERITED if name in layout.flags}
    paths = {name: flag_path(layout.layers, name) for name in flags}
    keys = {name: path for name, path in paths.items() if path is not None}
    return Layer(layout.unit, flags, keys)


def _workers(host: Host, layouts: Sequence[Layout], tokenizers: Sequence[Tokenizer]) -> tuple[Worker, ...]:
    servers = {one.layout.unit: (host.address, one.port, one.unit) for one in tokenizers}
    workers = []
    for layout in layouts:
        where, port, unit = servers.get(layout.unit, (layout.lead.address, layout.ports.http, layout.unit))
        role = "prefill" if layout.role == "prefill" else "decode"
        url = f"http://{endpoint(where, port)}"
        workers.append(Worker(url=url, role=role, unit=unit, bootstrap=layout.ports.bootstrap))
    return tuple(workers)
