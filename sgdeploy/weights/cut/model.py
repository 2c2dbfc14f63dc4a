"""What a checkpoint holds and what a split will hold, as frozen values. Sizes are bytes unless they say otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

ITEM_SIZES: Mapping[str, int] = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}
"""Bytes of one element by the name that the safetensors format gives its type; types below a byte are not cut."""

QUANTISED = frozenset({"I8", "F8_E4M3", "F8_E5M2"})
"""Types of weights that mean nothing without their scales."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the checkpoint.

    Attributes:
        name: as in the checkpoint.
        dtype: as safetensors spells it.
        shape: its dimensions.
        shard: position of its file in ``Checkpoint.shards``.
        offset: of its first byte in that file.
        size: bytes that it takes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int

    @property
    def rows(self) -> int:
        """Length of its first dimension; 1 for a scalar."""
        return self.shape[0] if self.shape else 1

    @property
    def row_size(self) -> int:
        """Bytes of one row: everything behind the first dimension."""
        return prod(self.shape[1:]) * ITEM_SIZES[self.dtype]


@dataclass(frozen=True)
class Shard:
    """A file of the checkpoint: its name, its size and the SHA-256 of its header (the eight length bytes included)."""

    name: str
    size: int
    header: str


@dataclass(frozen=True)
class Checkpoint:
    """What is known of a checkpoint without reading a single weight.

    Attributes:
        shards: its weight files.
        tensors: all tensors by name.
        config: ``config.json``.
        others: names of what lies beside the weights, and whether each is a file.
    """

    shards: tuple[Shard, ...]
    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any]
    others: tuple[tuple[str, bool], ...] = ()


class Piece(NamedTuple):
    """Bytes to copy: ``rows`` times ``take`` bytes, ``stride`` apart in the shard, ``pad`` zero bytes after each.

    One with ``shard`` -1 takes nothing and is ``pad`` zero bytes.
    """

    shard: int
    offset: int
    rows: int
    take: int
    stride: int
    pad: int = 0

    @property
    def size(self) -> int:
        """Bytes that it gives."""
        return self.rows * (self.take + self.pad)


@dataclass(frozen=True, slots=True)
class View:
    """Consecutive rows of a tensor: all, or one part of a tensor that holds several matrices one after another."""

    tensor: Tensor
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class Cut:
    """How a length is cut into ranges, one per index.

    Attributes:
        length: of what is cut.
        step: of each range; what lies beyond ``length`` is zeros.
        copies: so many neighbouring indices get the same range.
    """

    length: int
    step: int
    copies: int = 1

    def range(self, index: int) -> tuple[int, int, int]:
        """Give first, end and the number of zeros after it."""
        first = min(index // self.copies * self.step, self.length)
        end = min(first + self.step, self.length)
        return first, end, self.step - (end - first)


@dataclass(frozen=True, slots=True)
class Lane:
    """What is cut as one: the rows of one or more views after each other, or the columns of a single view."""

    views: tuple[View, ...]
    columns: bool
    cut: Cut

    def pieces(self, index: int) -> Iterator[Piece]:
        """Give the bytes of one range."""
        return self._columns(index) if self.columns else self._rows(index)

    def _rows(self, index: int) -> Iterator[Piece]:
        first, end, zeros = self.cut.range(index)
        begin = 0
        for view in self.views:
            low, high = max(first, begin), min(end, begin + view.rows)
            if low < high:
                wide = view.tensor.row_size
                offset = view.tensor.offset + (view.first + low - begin) * wide
                yield Piece(view.tensor.shard, offset, 1, (high - low) * wide, 0)
            begin += view.rows
        if zeros:
            yield Piece(-1, 0, 1, 0, 0, zeros * self.views[0].tensor.row_size)

    def _columns(self, index: int) -> Iterator[Piece]:
        first, end, zeros = self.cut.range(index)
        (view,) = self.views
        wide = view.tensor.row_size
        item = wide // self.cut.length
        offset = view.tensor.offset + view.first * wide + first * item
        if (first, end) == (0, self.cut.length) and not zeros:
            yield Piece(view.tensor.shard, offset, 1, view.rows * wide, 0)
        elif first < end:
            yield Piece(view.tensor.shard, offset, view.rows, (end - first) * item, wide, zeros * item)
        else:
            yield Piece(-1, 0, 1, 0, 0, view.rows * zeros * item)


@dataclass(frozen=True)
class Placement:
    """Which experts each rank holds.

    Attributes:
        groups: rank r belongs to expert group ``r // width``; each holds these experts, in order.
        width: ranks that share the experts of one group, each holding a cut of them.
    """

    groups: tuple[tuple[int, ...], ...]
    width: int


@dataclass(frozen=True)
class Parameter:
    """A tensor of the split, as the runtime names it; the same name, type and shape in the file of every rank.

    Attributes:
        name: of the runtime's parameter.
        dtype: of the source, always.
        shape: on each rank.
        kind: class of the rule that it follows (``shared_experts``).
        ways: into how many cuts; rank r gets cut ``r % ways``.
        stacks: lanes after each other; by logical expert where ``experts`` is set, else a single stack.
        experts: who holds which expert; None where it has nothing to do with experts.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: str
    ways: int
    stacks: tuple[tuple[Lane, ...], ...]
    experts: Placement | None = None

    @property
    def size(self) -> int:
        """Bytes on each rank."""
        return prod(self.shape) * ITEM_SIZES[self.dtype]

    def pieces(self, rank: int) -> Iterator[Piece]:
        """Give the bytes of one rank (counted within its pipeline stage), in order."""
        index = rank % self.ways
        chosen = (0,) if self.experts is None else self.experts.groups[rank // self.experts.width]
        for number in chosen:
            for lane in self.stacks[number]:
                yield from lane.pieces(index)

    def tensors(self) -> Iterator[Tensor]:
        """Give the tensors that it is made of; one may come twice."""
        return (view.tensor for stack in self.stacks for lane in stack for view in lane.views)


@dataclass(frozen=True)
class Bundle:
    """Files with the same parameters, one per rank or a single one.

    Attributes:
        folder: below the target: "" or ``mtp`` or ``pp1``.
        path: of a file, below the folder; ``{rank}`` is its number, the rank within its stage.
        stage: pipeline stage that loads it.
        parameters: in the order of the file.
        count: files; rank r loads number ``r % count``.
        period: file number n holds the same bytes as number ``n % period``.
        header: bytes before the parameters.
        owners: ranks that load the file where it is a single one; None where every rank of the stage loads one.
    """

    folder: str
    path: str
    stage: int
    parameters: tuple[Parameter, ...]
    count: int
    period: int
    header: int
    owners: frozenset[int] | None = None

    @property
    def file_size(self) -> int:
        """Bytes of each of its files."""
        return self.header + sum(each.size for each in self.parameters)

    def numbers(self, ranks: Iterable[int]) -> list[int]:
        """Give the numbers of the files that these ranks of the stage load, in order."""
        return sorted({rank % self.count for rank in ranks if self.owners is None or rank in self.owners})

    def file(self, number: int) -> str:
        """Give the path of a file below the target."""
        name = self.path.format(rank=number)
        return f"{self.folder}/{name}" if self.folder else name


@dataclass(frozen=True)
class Dropped:
    """A tensor of the checkpoint that goes nowhere, and why; one with ``zero`` must hold nothing but zeros."""

    tensor: Tensor
    reason: str
    zero: bool = False


@dataclass(frozen=True)
class SplitPlan:
    """A whole split.

    Attributes:
        bundles: all files.
        dropped: what goes nowhere.
        rules: class → rule that was applied, in words.
        digest: ``sha256:…`` over sources, rules and sizes.
        facts: what the manifest tells of it: scheme, layout, sizes.
    """

    bundles: tuple[Bundle, ...]
    dropped: tuple[Dropped, ...]
    rules: Mapping[str, str]
    digest: str
    facts: Mapping[str, Any] = field(default_factory=dict)
