"""Do the router's settings fit its version, the instances behind it, and what an operator expects of them?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgdeploy.engine.flags import check_value
from sgdeploy.plan.endpoint import endpoint
from sgdeploy.plan.layout import flag_path
from sgdeploy.plan.routing import prefill_policy
from sgdeploy.problems import KeyPath, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sgdeploy.plan.layout import Context, Layout
    from sgdeploy.plan.routing import Routing

BLIND_AFTER = 300
"""Seconds between two looks at a worker beyond which the router keeps sending requests to a dead one for too long."""

SPLITS_FROM = 100_000
"""Characters: below this, a few long prompts in one interval are enough for the load rule to place prompts whatever
their length. "Load" is characters routed in the last interval (router 0.3.2)."""

OFF = 1_000_000_000
"""A threshold that no traffic reaches: the load rule is off."""

_MISSES = 3


def check_router(context: Context, routing: Routing, layouts: Sequence[Layout]) -> list[Problem]:
    """Check the router with its merged flags and the instances behind it."""
    return [
        *_policies(context, routing),
        *_pools(context, routing),
        *_bucket(context, routing),
        *_groups(context, routing, layouts),
        *_health(routing),
        *_shared(context, routing, layouts),
        *_unused(context, routing),
    ]


def _at(*keys: str) -> KeyPath:
    return ("router", *keys)


def _policies(context: Context, routing: Routing) -> Iterator[Problem]:
    """Hold the policy words against the router's own choices."""
    catalogue, spec = context.router_catalogue, routing.spec
    for flag in ("policy", "prefill-policy", "decode-policy"):
        key = flag.replace("-", "_")
        value = getattr(spec, key)
        if catalogue is not None and value is not None:
            yield from check_value(catalogue.flags[flag], value, _at(key))
    if context.profile.topology == "two-bucket-prefill" and prefill_policy(context, spec) != "bucket":
        message = "two-bucket-prefill parts prompts by the bucket policy"
        hint = "remove `prefill_policy`, or use `topology: pd`"
        yield Problem(message, hint, _at("prefill_policy"), code="router-policy")


def _pools(context: Context, routing: Routing) -> Iterator[Problem]:
    """Some policies need two workers to choose from; the router ends, or the policy does nothing."""
    spec = routing.spec
    decode = spec.decode_policy or spec.policy
    for role, policy in (("prefill", prefill_policy(context, spec)), ("decode", decode)):
        if len(routing.of_role(role)) > 1:
            continue
        path = _at(f"{role}_policy" if getattr(spec, f"{role}_policy") else "policy")
        if policy == "power_of_two":
            message = (
                f"power_of_two needs two {role} instances to choose from, there is one: the router would not start"
            )
            yield Problem(message, f"choose another policy, or add a {role} instance", path, code="router-pool")
        elif policy == "bucket" and context.profile.topology != "two-bucket-prefill":  # there it has two, or an error
            message = "the bucket policy has one prefill instance to choose from"
            hint = "add a prefill instance, or remove the policy"
            yield Problem(message, hint, path, level="warning", code="router-pool")


def _bucket(context: Context, routing: Routing) -> Iterator[Problem]:
    """Say where the load rule would place prompts whatever their length."""
    spec = routing.spec
    if prefill_policy(context, spec) != "bucket" or spec.groups is not None or len(routing.of_role("prefill")) == 1:
        return
    threshold = routing.flags.get("balance-abs-threshold")
    if not isinstance(threshold, int) or threshold >= SPLITS_FROM:
        return
    message = (
        "prompts will not go apart by length: as soon as the prefill instances differ by more than "
        f"{threshold} characters within one interval, the router places by load; one long prompt is enough"
    )
    hint = f"set `router.bucket.balance_abs_threshold: {OFF}` to place by length alone (docs/topologies.md)"
    path = _at("bucket", "balance_abs_threshold")
    yield Problem(message, hint, path, level="warning", code="router-buckets")


def _groups(context: Context, routing: Routing, layouts: Sequence[Layout]) -> Iterator[Problem]:
    """Grouped routing takes the first instances by ascending URL for short prompts: text order, so .17: before .1:."""
    spec, catalogue = routing.spec, context.router_catalogue
    if spec.groups is None:
        return
    if catalogue is not None and not catalogue.grouped_routing:
        message = f"{catalogue.title} has no grouped routing (--prefill-short-count)"
        hint = "use `bucket` instead, or set `version: kunpeng` and `binary` where the host has such a build"
        yield Problem(message, hint, _at("groups"), at="key", code="router-groups")
        return
    prefills, count = routing.of_role("prefill"), spec.groups.short_count
    if count >= len(prefills):
        message = f"{count} of {len(prefills)} prefill instances for short prompts leave none for long ones"
        yield Problem(message, f"at most {len(prefills) - 1}", _at("groups", "short_count"), code="router-groups")
        return
    meant = [worker.url for worker in prefills[:count]]
    real = sorted(worker.url for worker in prefills)[:count]
    if set(meant) != set(real):
        message = (
            f"short prompts would go to {', '.join(real)}: the router takes the first {count} by ascending URL, "
            f"and {', '.join(meant)} is meant"
        )
        yield Problem(message, _better_leader(layouts, count), _at("groups", "short_count"), code="router-groups-order")


def _better_leader(layouts: Sequence[Layout], count: int) -> str:
    """Name a leader with which the URLs sort as meant; other hosts where no leader does."""
    prefills = [layout for layout in layouts if layout.role == "prefill"]
    longest = min(endpoint(one.lead.address, one.ports.http) for one in prefills[count:])
    for layout in prefills[:count]:
        fits = [host.name for host in layout.hosts if endpoint(host.address, layout.ports.http) < longest]
        if layout.lead.name not in fits and fits:
            return f"set `leader: {fits[-1]}` in {layout.unit}, whose URL sorts first"
    return "exchange the hosts of the instances, so that the URLs sort as meant"


def _health(routing: Routing) -> Iterator[Problem]:
    interval = routing.flags.get("health-check-interval-secs")
    if routing.flags.get("disable-health-check") is True:
        message = "the router never looks at its workers: a dead instance keeps getting requests"
        path = flag_path(routing.layers, "disable-health-check") or _at("flags")
        yield Problem(message, "remove the flag", path, level="warning", code="router-blind")
    elif isinstance(interval, int) and interval > BLIND_AFTER:
        message = (
            f"the router looks at a worker every {interval} s and gives it up after {_MISSES} misses: "
            f"a dead instance keeps getting requests for {interval * _MISSES} s"
        )
        path = flag_path(routing.layers, "health-check-interval-secs") or _at("flags")
        hint = "remove the flag for sgdeploy's default, or set some seconds"
        yield Problem(message, hint, path, level="warning", code="router-blind")
    patience = routing.flags.get("health-check-timeout-secs")
    if isinstance(patience, int) and patience <= 1:
        message = f"the router waits {patience} s for a worker's health, and a healthy engine takes 1.0 s to answer"
        path = flag_path(routing.layers, "health-check-timeout-secs") or _at("flags")
        yield Problem(message, "set 25 or more: a hung engine takes 20 s", path, code="router-patience")


def _shared(context: Context, routing: Routing, layouts: Sequence[Layout]) -> Iterator[Problem]:
    """On a host that is full of ranks the router takes a core that their threads use."""
    owner = next((one for one in layouts if routing.host.name in {host.name for host in one.hosts}), None)
    if owner is not None and owner.shape.by_rank and context.profile.node.pin:
        message = f"the router runs on {routing.host.name}, where {owner.unit} has ranks on every NUMA node"
        hint = "give it a host of its own: its threads and theirs would share cores"
        yield Problem(message, hint, _at("host"), level="warning", code="router-shared")


def _unused(context: Context, routing: Routing) -> Iterator[Problem]:
    """Name settings that nobody reads."""
    spec, bucket = routing.spec, prefill_policy(context, routing.spec) == "bucket"
    why = "the prefill policy is not bucket"
    idle = () if bucket or context.profile.topology == "two-bucket-prefill" else ("bucket", "groups")
    for key in idle:
        if getattr(spec, key) is not None:
            yield _idle(key, why, "set `prefill_policy: bucket`, or remove it")
    if bucket:
        for name in ("balance-abs-threshold", "balance-rel-threshold"):
            path = flag_path(routing.layers, name)
            if path is not None:
                hint = f"set `router.bucket.{name.replace('-', '_')}`"
                yield Problem(f"`{name}` belongs to the bucket policy here", hint, path, "key", code="flag-owned")
    if not routing.tokenizers and "tokenizers" in spec.model_fields_set:
        yield _idle("tokenizers", "tokenizing happens in the instances", "set `tokenizer: separate`, or remove it")
    if spec.binary is not None and spec.python is not None:
        yield _idle("python", "`binary` runs instead of the Python package", "remove one of the two")


def _idle(key: str, why: str, hint: str) -> Problem:
    return Problem(f"`router.{key}` has no effect: {why}", hint, _at(key), "key", level="warning", code="router-unused")
