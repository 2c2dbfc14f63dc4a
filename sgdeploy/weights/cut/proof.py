"""The proof that a split is right: it follows every byte that would be copied, whatever the rules were that led there.

Over the ranks that share a parameter, each tensor that it takes from is taken whole, every byte equally often; each
rank gets exactly the bytes of its shape; and no tensor is left over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.model import Bundle, Checkpoint, Parameter, Piece, SplitPlan, Tensor
from sgdeploy.weights.cut.names import first_of

_Span = tuple[int, int, int]
"""First byte, length and stride (0 for a contiguous one) of what is taken from a tensor."""


@dataclass(frozen=True)
class _Where:
    """Finds the tensor that an offset of a shard lies in."""

    starts: Mapping[int, list[int]]
    tensors: Mapping[int, list[Tensor]]

    def find(self, piece: Piece) -> Tensor | None:
        starts = self.starts.get(piece.shard, [])
        index = bisect_right(starts, piece.offset) - 1
        return self.tensors[piece.shard][index] if index >= 0 else None


def prove(plan: SplitPlan, checkpoint: Checkpoint, tp: int) -> Iterator[Problem]:
    """Follow every byte of the plan; a problem for each parameter or tensor that is not right.

    Args:
        plan: what would be written.
        checkpoint: what it is written from.
        tp: ranks of a stage.
    """
    where = _where(checkpoint)
    covered = {(drop.tensor.shard, drop.tensor.offset) for drop in plan.dropped}
    for bundle in plan.bundles:
        for parameter in bundle.parameters:
            yield from _parameter(bundle, parameter, where, covered, tp)
    left = [t.name for t in checkpoint.tensors.values() if t.size and (t.shard, t.offset) not in covered]
    if left:
        yield Problem(f"{first_of(left)} goes nowhere and is not listed as dropped", code="proof")


def _where(checkpoint: Checkpoint) -> _Where:
    tensors: dict[int, list[Tensor]] = {}
    for tensor in sorted(checkpoint.tensors.values(), key=lambda tensor: tensor.offset):
        if tensor.size:
            tensors.setdefault(tensor.shard, []).append(tensor)
    return _Where({shard: [tensor.offset for tensor in each] for shard, each in tensors.items()}, tensors)


def _parameter(
    bundle: Bundle, parameter: Parameter, where: _Where, covered: set[tuple[int, int]], tp: int
) -> Iterator[Problem]:
    taken: dict[tuple[int, int], list[_Span]] = {}
    tensors: dict[tuple[int, int], Tensor] = {}
    for rank in range(tp if parameter.experts is not None else parameter.ways):
        size = 0
        for piece in parameter.pieces(rank):
            size += piece.size
            if piece.shard < 0:
                continue
            tensor = where.find(piece)
            if tensor is None:
                yield Problem(f"{parameter.name}: offset {piece.offset} is in no tensor", code="proof")
                continue
            key = (tensor.shard, tensor.offset)
            tensors[key] = tensor
            taken.setdefault(key, []).append((piece.offset - tensor.offset, piece.take, piece.stride))
        if size != parameter.size:
            message = f"{bundle.file(rank)}: {parameter.name} needs {parameter.size} bytes and would get {size}"
            yield Problem(message, code="proof")
    covered.update(taken)
    for key, spans in taken.items():
        reason = _untiled(tensors[key], spans)
        if reason:
            yield Problem(f"{tensors[key].name}: {reason} in {parameter.name}", code="proof")


def _untiled(tensor: Tensor, spans: list[_Span]) -> str:
    """Say how the spans taken from a tensor fail to cover it evenly; "" where they do."""
    if spans == [(0, tensor.size, 0)]:
        return ""
    often = Counter(spans)
    if len(set(often.values())) > 1:
        return f"some bytes are taken {min(often.values())} times and some {max(often.values())} times"
    strides = {stride for _, _, stride in often}
    if len(strides) > 1:
        return "it is cut in two ways at once"
    (stride,) = strides
    end = _tiled((first, length) for first, length, _ in often)
    if end is None:
        return "cuts overlap or leave a gap"
    expected = stride or tensor.size
    return "" if end == expected else f"{end} of {expected} bytes {'of a row ' if stride else ''}are taken"


def _tiled(spans: Iterable[tuple[int, int]]) -> int | None:
    """Give the end of spans that follow each other from 0 without gap or overlap; None where they do not."""
    end = 0
    for first, length in sorted(spans):
        if first != end:
            return None
        end += length
    return end
