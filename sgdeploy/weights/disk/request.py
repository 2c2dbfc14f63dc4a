"""From a wish of the operator's to a split that could begin: read, planned, proven, held against what is expected."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.expect import check_expected, read_expected
from sgdeploy.weights.cut.model import Checkpoint, SplitPlan
from sgdeploy.weights.cut.planner import Wish, make_plan
from sgdeploy.weights.cut.report import Report, report, stored
from sgdeploy.weights.cut.targets import OutFile, out_files, ranks_of_node, read_ranks
from sgdeploy.weights.disk.checkpoint import read_checkpoint
from sgdeploy.weights.disk.others import sorted_out
from sgdeploy.weights.disk.paths import check_paths
from sgdeploy.weights.errors import CheckpointError
from sgdeploy.words import number_list

Replicas: TypeAlias = Literal["link", "symlink", "reflink", "copy"]
"""What files with the same bytes become."""


@dataclass(frozen=True)
class Request:
    """What to split, how, and for whom.

    Attributes:
        model: folder of the checkpoint.
        target: folder that is written; None where only a plan is asked for.
        wish: sizes, scheme and what else decides about the bytes.
        ranks: whose files, as ``0-15``; None for all.
        node: whose files, by node rank; None for all.
        nodes: number of nodes; None where it is not known.
        replicas: what becomes of equal files.
        expect: manifests of runtimes that the split must fit.
    """

    model: Path
    target: Path | None
    wish: Wish
    ranks: str | None = None
    node: int | None = None
    nodes: int | None = None
    replicas: Replicas = "link"
    expect: tuple[Path, ...] = ()

    @property
    def linked(self) -> bool:
        """Whether equal files become one with several names."""
        return self.replicas != "copy"


@dataclass(frozen=True)
class Prepared:
    """A split that could begin.

    Attributes:
        request: what was asked for.
        checkpoint: what is known of the checkpoint.
        plan: proven.
        ranks: whose files are made.
        files: that are made, in order.
        report: in numbers.
    """

    request: Request
    checkpoint: Checkpoint
    plan: SplitPlan
    ranks: tuple[int, ...]
    files: tuple[OutFile, ...]
    report: Report


def prepare(request: Request) -> Prepared:
    """Read a checkpoint of this machine, plan and prove.

    Raises:
        CheckpointError: with every problem.
    """
    problems = list(check_paths(request.model, request.target)) if request.target is not None else []
    with _without_collection():
        checkpoint, found = read_checkpoint(request.model)
        return _made(request, checkpoint, problems + found)


def prepare_with(request: Request, checkpoint: Checkpoint) -> Prepared:
    """Plan and prove with a checkpoint that was read elsewhere.

    Raises:
        CheckpointError: with every problem.
    """
    with _without_collection():
        return _made(request, checkpoint, [])


def _made(request: Request, checkpoint: Checkpoint | None, problems: list[Problem]) -> Prepared:
    ranks = _ranks(request)
    problems += [ranks] if isinstance(ranks, Problem) else []
    plan = None
    if checkpoint is not None:
        plan, found = make_plan(checkpoint, request.wish)
        problems += found
        problems += _expected(request, plan) if plan is not None else []
    if checkpoint is None or plan is None or isinstance(ranks, Problem) or problems:
        raise CheckpointError(problems)
    return _prepared(request, checkpoint, plan, ranks)


def _prepared(request: Request, checkpoint: Checkpoint, plan: SplitPlan, ranks: tuple[int, ...]) -> Prepared:
    sizes, linked = request.wish.sizes, request.linked
    files = tuple(out_files(plan, sizes, ranks, linked=linked))
    node = None
    if request.nodes is not None:
        first = ranks_of_node(sizes, 0, request.nodes)
        if isinstance(first, range):
            node = stored(tuple(out_files(plan, sizes, first, linked=linked)))
    along, behind = sorted_out(checkpoint.others)
    extra = {"ranks": number_list(ranks), "node": node, "copied": along, "left": behind}
    return Prepared(request, checkpoint, plan, ranks, files, report(plan, checkpoint, sizes, files, extra))


def _ranks(request: Request) -> tuple[int, ...] | Problem:
    """Give the ranks whose files are wanted."""
    sizes = request.wish.sizes
    if request.ranks is not None and request.node is not None:
        return Problem("--ranks and --node-rank contradict each other", "give one of them", code="ranks")
    if request.ranks is not None:
        return read_ranks(request.ranks, sizes.world)
    if request.node is None:
        return tuple(range(sizes.world))
    if request.nodes is None:
        return Problem("--node-rank needs to know how many nodes there are", "pass --nnodes", code="nodes")
    found = ranks_of_node(sizes, request.node, request.nodes)
    return found if isinstance(found, Problem) else tuple(found)


def _expected(request: Request, plan: SplitPlan) -> Sequence[Problem]:
    problems: list[Problem] = []
    for path in request.expect:
        try:
            expected = read_expected(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            problems.append(Problem(f"{path} cannot be read: {error}", code="expect"))
            continue
        if isinstance(expected, str):
            hint = "`sgdeploy split-weights dump-manifest` makes one"
            problems.append(Problem(f"{path} is no manifest of a runtime: {expected}", hint, code="expect"))
        else:
            problems += check_expected(plan, request.wish.sizes, expected, str(path))
    return problems


@contextmanager
def _without_collection() -> Iterator[None]:
    """Keep the garbage collector from walking a hundred thousand tensors again and again: none of them is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
