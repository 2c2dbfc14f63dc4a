"""Do prefill and decode agree on what they hand each other? The engine tells at the first request, if at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sgdeploy.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sgdeploy.engine.catalogue import Catalogue
    from sgdeploy.plan.layout import Layout
    from sgdeploy.profile.schema import FlagValue

AGREE = {
    "page-size": "KV cache travels in pages, and a mismatch shows only at the first request",
    "kv-cache-dtype": "KV cache travels as it lies in memory",
    "dtype": "KV cache takes its type from it",
    "disaggregation-transfer-backend": "both ends of a transfer speak one protocol",
    "api-key": "the router hands one key on to both",
}
"""Flags that must be equal on all instances of a split → why (field reports on sgl-project/sglang and others)."""

AGREE_BETTER = {
    "load-balance-method": "router 0.3.2 warns of ranks that do not match",
    "speculative-algorithm": "a draft begun by prefill is carried on by decode",
}
"""The same, where a difference is only doubtful."""

AGREE_ENV = {
    "SGLANG_ENABLE_MTP": "a draft begun by prefill is carried on by decode",
    "LC_DP_RANKS": "both sides must know which groups take long contexts",
    "LC_MIN_SEQ_LEN": "both sides must know which requests are long",
}
"""Variables that must be equal (vendor's launch scripts)."""

_BY_ROOM = "follow_bootstrap_room"


def check_split(catalogue: Catalogue, layouts: Sequence[Layout]) -> list[Problem]:
    """Compare every instance of a split with the first prefill."""
    split = [layout for layout in layouts if layout.role != "native"]
    if not split:
        return []
    first, others = split[0], split[1:]
    problems = [problem for other in others for problem in (*_flags(catalogue, first, other), *_env(first, other))]
    return [*problems, *(problem for layout in split for problem in _balance(layout))]


def _flags(catalogue: Catalogue, first: Layout, other: Layout) -> Iterator[Problem]:
    for name, why in (AGREE | AGREE_BETTER).items():
        mine, theirs = first.flags.get(name), other.flags.get(name)
        default = catalogue.flags[name].default
        if (default if mine is None else mine) != (default if theirs is None else theirs):
            message = f"{_said(name, mine)} in {first.unit}, {_said(name, theirs)} in {other.unit}: {why}"
            hint = f"set `{name}` once, in `engine.flags`, or to the same in all instances"
            path = other.flag_path(name)
            path = path if path != other.path else first.flag_path(name)
            problem = Problem(message, hint, path, code="split-differs")
            yield problem if name in AGREE else replace(problem, level="warning")


def _said(name: str, value: FlagValue) -> str:
    return f"no `{name}`" if value is None else f"`{name}: {value}`"


def _env(first: Layout, other: Layout) -> Iterator[Problem]:
    for name, why in AGREE_ENV.items():
        mine, theirs = first.env.values.get(name), other.env.values.get(name)
        if mine != theirs:
            said = [f"{name} is {value}" if isinstance(value, str) else f"no {name}" for value in (mine, theirs)]
            message = f"{said[0]} in {first.unit}, {said[1]} in {other.unit}: {why}"
            path = (other if name in other.env.keys else first).env_path(name)
            yield Problem(message, "set it once, in `engine.env`", path, code="split-differs")


def _balance(layout: Layout) -> Iterator[Problem]:
    """With data parallel groups, prefill and decode must put a request into matching groups."""
    method = layout.flags.get("load-balance-method")
    if layout.role == "prefill" and layout.shape.dp > 1 and method not in {None, "auto", _BY_ROOM}:
        message = (
            f"{layout.unit} has {layout.shape.dp} data parallel groups and spreads requests by {method}: "
            "prefill and decode may choose groups that do not match"
        )
        path = layout.flag_path("load-balance-method")
        yield Problem(message, f"set `load-balance-method: {_BY_ROOM}`", path, level="warning", code="split-balance")
