"""The sizes of a deployment as far as a split depends on them, and what follows from them alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.model import Placement
from sgdeploy.weights.cut.schema import Layout, Scheme

WHOLE, ATTENTION, GLOBAL, SOCKET = "whole", "attention", "global", "socket"

_SHOWN_SIZES = 12


@dataclass(frozen=True)
class Sizes:
    """How many ranks there are and how they are grouped.

    Attributes:
        tp: ranks of one pipeline stage.
        dp: attention groups in a stage (1 without attention data parallelism).
        ep: expert groups in a stage.
        pp: pipeline stages.
        partition: layers of each stage; () for the runtime's own rule.
        redundant: physical experts beyond the logical ones.
        expert_map: layer → logical expert of each physical one; {} for the runtime's own rule.
    """

    tp: int
    dp: int = 1
    ep: int = 1
    pp: int = 1
    partition: tuple[int, ...] = ()
    redundant: int = 0
    expert_map: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def attention(self) -> int:
        """Ranks that share one attention."""
        return self.tp // self.dp

    @property
    def expert_tp(self) -> int:
        """Ranks that share one expert."""
        return self.tp // self.ep

    @property
    def world(self) -> int:
        """All ranks."""
        return self.tp * self.pp

    def ways(self, rule: str) -> int:
        """Give into how many cuts a rule cuts; rank r then gets number ``r % ways``."""
        if rule == ATTENTION:
            return self.attention
        if rule == GLOBAL:
            return self.tp
        return int(rule.partition(":")[2] or 1)

    def words(self, rule: str) -> str:
        """Name what a rule cuts over, with its number: ``attention TP 16``."""
        name = {ATTENTION: "attention TP ", GLOBAL: "TP "}.get(rule, "")
        return f"{name}{self.ways(rule)}" if name else rule


def check_sizes(sizes: Sizes, layers: int, experts: int, scheme: Scheme, layout: Layout) -> Iterator[Problem]:
    """Hold the sizes against each other, the model and what the scheme's runtime can hold."""
    for name, size in (("dp", sizes.dp), ("ep", sizes.ep)):
        if sizes.tp % size:
            fits = fitting(sizes.tp, size)
            yield Problem(f"tp {sizes.tp} is no multiple of {name} {size}", f"{name} that fits: {fits}", code="sizes")
    if sizes.partition and (len(sizes.partition) != sizes.pp or sum(sizes.partition) != layers):
        given = ",".join(map(str, sizes.partition))
        message = (
            f"the stages' layers {given} are {len(sizes.partition)} numbers that sum up to {sum(sizes.partition)}; "
            f"there are {sizes.pp} stages and {layers} layers"
        )
        yield Problem(message, "give one number per stage", code="partition")
    elif sizes.pp > layers:
        yield Problem(f"{layers} layers cannot be spread over {sizes.pp} stages", code="partition")
    if experts:
        yield from _check_experts(sizes, experts, scheme, layout)


def _check_experts(sizes: Sizes, experts: int, scheme: Scheme, layout: Layout) -> Iterator[Problem]:
    physical = experts + sizes.redundant
    if scheme.experts == "single" and layout == "sharded_state" and (physical, sizes.tp) != (sizes.ep, sizes.ep):
        message = (
            f"ep {sizes.ep} with --scheme {scheme.name}: this runtime wants one expert per rank, and there are "
            f"{physical} experts for {sizes.tp} ranks"
        )
        yield Problem(message, f"tp and ep {physical} fit, or another scheme", code="experts")
    elif physical % sizes.ep:
        message = f"{experts} experts + {sizes.redundant} redundant over ep {sizes.ep}: not a whole number per rank"
        yield Problem(message, f"ep that fits: {fitting(physical, sizes.ep)}", code="experts")
    elif layout == "kunpeng_state" and (sizes.redundant or sizes.expert_map):
        message = (
            "kunpeng_state holds each expert once, by its own number; redundant experts have no files of their own"
        )
        yield Problem(message, "leave the redundant experts out: the runtime places them itself", code="experts")
    for layer, row in sizes.expert_map.items():
        wrong = sorted({number for number in row if not 0 <= number < experts})
        missing = sorted(set(range(experts)) - set(row))
        if len(row) != physical or wrong or missing:
            message = (
                f"the expert map of layer {layer} has {len(row)} entries for {physical} physical experts; "
                f"unknown: {some(wrong)}; missing: {some(missing)}"
            )
            yield Problem(message, "each layer lists the logical expert of every physical one", code="experts")


def some(numbers: Sequence[int]) -> str:
    """Write the first of many numbers; "none" for none."""
    shown = " ".join(map(str, numbers[:_SHOWN_SIZES]))
    return (shown + (" …" if len(numbers) > _SHOWN_SIZES else "")) or "none"


def fitting(length: int, near: int) -> str:
    """List sizes that divide a length: all, or those around a size that does not."""
    sizes = [size for size in range(1, length + 1) if length % size == 0]
    if len(sizes) > _SHOWN_SIZES:
        above = sum(size < near for size in sizes)
        first = min(max(above - _SHOWN_SIZES // 2, 0), len(sizes) - _SHOWN_SIZES)
        sizes = sizes[first : first + _SHOWN_SIZES]
    return " ".join(map(str, sizes))


def stages(layers: int, sizes: Sizes) -> tuple[range, ...]:
    """Give the layers of each stage: as partitioned, or evenly with the remainder on the last ones (SGLang's rule)."""
    even, rest = divmod(layers, sizes.pp)
    counts = sizes.partition or [even + (number >= sizes.pp - rest) for number in range(sizes.pp)]
    ends = list(accumulate(counts))
    return tuple(range(end - count, end) for count, end in zip(counts, ends, strict=True))


def placement(sizes: Sizes, layer: int, experts: int) -> Placement:
    """Say who holds which expert: neighbouring ones, redundant ones after the others from the first again."""
    physical = experts + sizes.redundant
    order = sizes.expert_map.get(layer) or tuple(number % experts for number in range(physical))
    return _placement(order, physical // sizes.ep, sizes.expert_tp)


@lru_cache
def _placement(order: tuple[int, ...], each: int, width: int) -> Placement:
    return Placement(tuple(order[first : first + each] for first in range(0, len(order), each)), width)
