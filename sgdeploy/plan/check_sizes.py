"""Do the sizes of an instance divide, and does a node hold its ranks? The engine itself asks only after minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgdeploy.problems import KeyPath, Problem
from sgdeploy.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sgdeploy.plan.layout import Layout
    from sgdeploy.platforms.base import Platform, Shape


PARTITION = "SGLANG_PP_LAYER_PARTITION"
"""Variable with the number of layers of each pipeline stage, separated by commas."""


def check_sizes(layout: Layout, platform: Platform, layers: int | None) -> list[Problem]:
    """Check ranks over nodes, pipeline stages over nodes and layers, data and expert parallel groups over ranks.

    Args:
        layout: the instance.
        platform: how many ranks a node holds.
        layers: of the model, None where the profile does not say.
    """
    at: KeyPath = (*layout.path, "parallel")
    found = [*_ranks(layout.shape, platform, at), *_stages(layout.shape, at), *_partition(layout, layers)]
    # A default that follows from sizes which are wrong is no second mistake.
    dp_counts = layout.spec.parallel.dp is not None or not found
    found += _data_groups(layout, at) if dp_counts else ()
    return [*found, *_expert_groups(layout.shape, at), *_variables(layout, platform)]


def _ranks(shape: Shape, platform: Platform, at: KeyPath) -> Iterator[Problem]:
    limit = platform.ranks_that_fit()
    product = f"tensor parallel {shape.tp}" + (f" times {shape.pp} pipeline stages" if shape.pp > 1 else "")
    if shape.ranks % shape.nodes:
        each, left = divmod(shape.ranks, shape.nodes)
        verb = "does" if shape.ranks == 1 else "do"
        message = (
            f"{plural(shape.ranks, 'rank')} ({product}) {verb} not divide over {plural(shape.nodes, 'node')}: "
            f"{each} on each would leave {left} over"
        )
        yield Problem(message, _what_fits(shape, limit), (*at, "tp"), code="sizes-divide")
    elif limit is not None and shape.ranks_per_node > limit:
        message = (
            f"{plural(shape.ranks_per_node, 'rank')} on each node ({product} over {plural(shape.nodes, 'node')}), "
            f"but a {platform.kind} node holds {limit}, one per compute NUMA node"
        )
        yield Problem(message, _two_ways_out(shape, limit), (*at, "tp"), code="ranks-per-node")


def _two_ways_out(shape: Shape, limit: int) -> str:
    nodes = next((n for n in range(shape.nodes, shape.ranks + 1) if _fits(shape.ranks, n, limit)), shape.ranks)
    tp = _largest(shape, range(shape.tp - 1, 0, -1), limit)
    more = f"give the instance {plural(nodes, 'node')} ({plural(shape.ranks // nodes, 'rank')} each)"
    if tp is None:
        return more
    stage = "tensor parallel is the width of one pipeline stage: " if shape.pp > 1 else ""
    return f"{stage}set `tp: {tp}` ({plural(tp * shape.pp // shape.nodes, 'rank')} on each node), or {more}"


def _what_fits(shape: Shape, limit: int | None) -> str:
    below = next((n for n in range(shape.nodes - 1, 0, -1) if _fits(shape.ranks, n, limit)), None)
    above = next((n for n in range(shape.nodes + 1, shape.ranks + 1) if _fits(shape.ranks, n, limit)), None)
    ways = [f"{plural(n, 'node')} ({plural(shape.ranks // n, 'rank')} each)" for n in (below, above) if n is not None]
    smaller = _largest(shape, range(shape.tp - 1, 0, -1), limit)
    larger = _largest(shape, range(shape.tp + 1, shape.tp + shape.nodes + 1), limit)
    ways += [f"`tp: {tp}` on {plural(shape.nodes, 'node')}" for tp in (smaller, larger) if tp is not None]
    return "what fits: " + ", ".join(ways) if ways else "change the number of hosts or `tp`"


def _largest(shape: Shape, widths: Iterable[int], limit: int | None) -> int | None:
    """Find the first tensor parallel width that divides over the nodes that there are."""
    return next((tp for tp in widths if _fits(tp * shape.pp, shape.nodes, limit)), None)


def _fits(ranks: int, nodes: int, limit: int | None) -> bool:
    return ranks % nodes == 0 and (limit is None or ranks // nodes <= limit)


def _stages(shape: Shape, at: KeyPath) -> Iterator[Problem]:
    if shape.nodes % shape.pp and shape.pp % shape.nodes:
        message = f"{plural(shape.pp, 'pipeline stage')} and {plural(shape.nodes, 'node')} do not divide by each other"
        hint = "a stage takes whole nodes, or a node takes whole stages"
        yield Problem(message, hint, (*at, "pp"), code="stages-divide")


def _partition(layout: Layout, layers: int | None) -> Iterator[Problem]:
    """The engine wants one entry per stage, and in sum the layers of the model; it says so only when it loads."""
    text, stages = layout.env.values.get(PARTITION), layout.shape.pp
    if not isinstance(text, str):
        return
    path = layout.env_path(PARTITION)
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        message = f'{PARTITION} must be numbers of layers separated by commas, got "{text}"'
        yield Problem(message, _example(stages, layers), path, code="partition-text")
    elif len(parts) != stages:
        message = f"{PARTITION} has {plural(len(parts), 'part')} for {plural(stages, 'pipeline stage')}"
        yield Problem(message, _example(stages, layers), path, code="partition-stages")
    elif layers is not None and sum(map(int, parts)) != layers:
        message = f"{PARTITION} places {sum(map(int, parts))} layers, and the model has {layers} (`model.layers`)"
        yield Problem(message, _example(stages, layers), path, code="partition-layers")


def _example(stages: int, layers: int | None) -> str:
    if stages == 1:
        return "remove it: there is one stage"
    if layers is None or layers < stages:
        return "give each stage its number of layers"
    each, more = divmod(layers, stages)
    return f"such as {','.join(str(each + (stage < more)) for stage in range(stages))}"


def _variables(layout: Layout, platform: Platform) -> Iterator[Problem]:
    """Sizes that were set by hand as variables, beside those that the instance really has."""
    meant, said = platform.size_env(layout.shape), layout.env.values
    wrong = [name for name, value in meant.items() if isinstance(said.get(name), str) and said[name] != value]
    if wrong:
        has = ", ".join(f"{name}={said[name]}" for name in wrong)
        real = ", ".join(f"{name}={meant[name]}" for name in wrong)
        message = f"{layout.unit} is planned with {real}, and the environment says {has}: libraries would believe that"
        hint = "remove what the environment says; sgdeploy derives it from `hosts`, `parallel` and `rendezvous`"
        yield Problem(message, hint, layout.env_path(wrong[0]), code="size-variable")


def _data_groups(layout: Layout, at: KeyPath) -> Iterator[Problem]:
    shape = layout.shape
    attention = layout.flags.get("enable-dp-attention") is True
    if attention and shape.tp % shape.dp:
        message = f"tensor parallel {shape.tp} does not divide by {shape.dp} data parallel groups"
        hint = f"with attention data parallelism `dp` divides `tp`: {_divisors(shape.tp, shape.dp)}"
        yield Problem(message, hint, (*at, "dp"), code="dp-divides")
    if not attention and shape.dp > 1 and shape.nodes > 1:
        message = f"{shape.dp} data parallel groups over {plural(shape.nodes, 'node')} need attention data parallelism"
        yield Problem(message, "set the flag `enable-dp-attention: true`, or `dp: 1`", (*at, "dp"), code="dp-nodes")


def _expert_groups(shape: Shape, at: KeyPath) -> Iterator[Problem]:
    if shape.ep is not None and shape.tp % shape.ep:
        message = f"tensor parallel {shape.tp} does not divide by expert parallel {shape.ep}"
        hint = f"`ep` divides `tp`, and is mostly equal to it: {_divisors(shape.tp, shape.ep)}"
        yield Problem(message, hint, (*at, "ep"), code="ep-divides")


def _divisors(number: int, near: int) -> str:
    """Name the divisors of ``number`` on both sides of ``near``."""
    below = next((d for d in range(min(near, number), 0, -1) if number % d == 0), 1)
    above = next((d for d in range(near, number + 1) if number % d == 0), None)
    return f"{below} would do" if above in {None, below} else f"{below} or {above} would do"
