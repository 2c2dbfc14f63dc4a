"""Parameters → files, in either layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import lcm

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.header import in_order, write_header
from sgdeploy.weights.cut.model import Bundle, Parameter
from sgdeploy.weights.cut.schema import EXPERTS, Layout
from sgdeploy.weights.cut.sizes import ATTENTION, GLOBAL, Sizes, placement

DRAFT = "mtp"
"""Folder of a draft model of its own."""

SHARED, ROUTED, OWN = 0, 1, 2
"""Numbers of the parts of a rank: what data parallel replicas share, routed experts, what is cut over all ranks."""


def folder(sizes: Sizes, stage: int, *, draft: bool) -> str:
    """Name the folder of a stage's files below the target."""
    return DRAFT if draft else f"pp{stage}" if sizes.pp > 1 else ""


def rank_file(part: int) -> str:
    """Name a part of a rank in ``sharded_state``."""
    return f"model-rank-{{rank}}-part-{part}.safetensors"


def attention_file(sizes: Sizes) -> str:
    """Name the file of a rank of an attention group in ``kunpeng_state``."""
    return f"tp{sizes.attention}/model-rank-{{rank}}-part-0.safetensors"


def sharded(
    sizes: Sizes, rules: Mapping[str, str], where: tuple[str, int], parameters: Sequence[Parameter]
) -> Iterator[Bundle]:
    """Bundle for ``sharded_state``: up to three parts per rank, side by side.

    Args:
        sizes: of the deployment.
        rules: class → rule.
        where: folder and stage.
        parameters: all of that folder.
    """
    parts: dict[int, list[Parameter]] = {}
    for each in parameters:
        own = rules.get(each.kind) == GLOBAL and sizes.dp > 1
        parts.setdefault(ROUTED if each.kind == EXPERTS else OWN if own else SHARED, []).append(each)
    for part, members in sorted(parts.items()):
        period = sizes.tp if part == ROUTED else lcm(*(each.ways for each in members))
        yield _bundle(where, rank_file(part), members, (sizes.tp, period))


def _bundle(
    where: tuple[str, int],
    path: str,
    parameters: Sequence[Parameter],
    counts: tuple[int, int],
    owners: frozenset[int] | None = None,
) -> Bundle:
    ordered = in_order(parameters)
    return Bundle(where[0], path, where[1], ordered, *counts, len(write_header(ordered)), owners)


def by_attention_rank(sizes: Sizes, where: tuple[str, int], parameters: Sequence[Parameter]) -> Bundle:
    """Bundle for ``kunpeng_state`` what is no expert: one file for each rank of an attention group."""
    return _bundle(where, attention_file(sizes), parameters, (sizes.attention, sizes.attention))


def of_expert(
    sizes: Sizes, where: tuple[str, int], layer: int, number: int, experts: int, parameters: Sequence[Parameter]
) -> Bundle:
    """Bundle for ``kunpeng_state`` one expert of one layer: a single file, read by the ranks that hold it."""
    held = placement(sizes, layer, experts)
    owners = frozenset(rank for rank in range(sizes.tp) if number in held.groups[rank // held.width])
    path = f"experts/layer_{layer}/expert_{number}.safetensors"
    return _bundle(where, path, parameters, (1, 1), owners)


def check_rules(layout: Layout, sizes: Sizes, rules: Mapping[str, str], kinds: set[str]) -> Iterator[Problem]:
    """Find rules that the ranks, or the files of a layout, do not divide into."""
    for kind in sorted(kinds & rules.keys()):
        ways, words = sizes.ways(rules[kind]), sizes.words(rules[kind])
        if sizes.tp % ways:
            message = f"class {kind} is cut over {words}, which {sizes.tp} ranks do not divide into"
            yield Problem(message, f"pass --class {kind}=RULE with another rule", code="rule")
        elif layout == "kunpeng_state" and sizes.attention % ways:
            message = (
                f"class {kind} is cut over {words}, but kunpeng_state has one file for each of the "
                f"{sizes.attention} ranks of an attention group"
            )
            yield Problem(message, f"--class {kind}={ATTENTION}, or --layout sharded_state", code="rule")
