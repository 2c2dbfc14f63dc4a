"""The files that some ranks need, and the ranks of a node."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.model import Bundle, SplitPlan
from sgdeploy.weights.cut.sizes import Sizes


@dataclass(frozen=True)
class OutFile:
    """A file to be made.

    Attributes:
        path: below the target.
        bundle: what it belongs to.
        number: which of the bundle's files it is.
        size: bytes, header included.
        twin: path of an earlier file of the list that holds the same bytes; None where there is none.
    """

    path: str
    bundle: Bundle
    number: int
    size: int
    twin: str | None = None


def out_files(plan: SplitPlan, sizes: Sizes, ranks: Collection[int], *, linked: bool) -> Iterator[OutFile]:
    """Give the files that ranks need, in order; those with the same bytes name the first of them as their twin.

    Args:
        plan: of the split.
        sizes: of the deployment.
        ranks: numbers from 0 to all ranks of all stages.
        linked: whether equal files become links to one.
    """
    for bundle in plan.bundles:
        first_rank = bundle.stage * sizes.tp
        numbers = bundle.numbers(rank - first_rank for rank in ranks if 0 <= rank - first_rank < sizes.tp)
        size = bundle.file_size
        firsts: dict[int, str] = {}
        for number in numbers:
            path = bundle.file(number)
            first = firsts.setdefault(number % bundle.period, path)
            yield OutFile(path, bundle, number, size, first if linked and first != path else None)


def ranks_of_node(sizes: Sizes, node: int, nodes: int) -> range | Problem:
    """Give the ranks of a node: they follow each other, node by node."""
    if sizes.world % nodes:
        return Problem(f"{sizes.world} ranks do not spread evenly over {nodes} nodes", code="nodes")
    if not 0 <= node < nodes:
        return Problem(f"node rank {node} is beyond the {nodes} nodes (0 to {nodes - 1})", code="nodes")
    each = sizes.world // nodes
    return range(node * each, (node + 1) * each)


def read_ranks(text: str, world: int) -> tuple[int, ...] | Problem:
    """Read ``0-15``, ``3``, ``0-3,8-11``."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()) or int(last or first) < int(first):
            return Problem(f"--ranks {text}: {part!r} is no rank and no range", "write 0-15 or 0-3,8-11", code="ranks")
        if int(last or first) >= world:
            return Problem(f"--ranks {text}: there are {world} ranks, 0 to {world - 1}", code="ranks")
        found |= set(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))
