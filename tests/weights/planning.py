"""Planning a split in a test, and reading what it would write without writing it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sgdeploy.weights.cut.book import scheme
from sgdeploy.weights.cut.model import Parameter, SplitPlan
from sgdeploy.weights.cut.planner import Wish, make_plan
from sgdeploy.weights.cut.sizes import Sizes
from sgdeploy.weights.disk.checkpoint import read_checkpoint

DATA = Path(__file__).parent / "data"


def wish(name: str, sizes: Sizes, classes: Mapping[str, str] | None = None, **more: Any) -> Wish:
    """Wish for a split by a scheme that ships."""
    found, problems = scheme(name)
    assert found is not None, problems
    return Wish(sizes, found, classes or {}, **more)


def planned(folder: Path, wanted: Wish) -> SplitPlan:
    """Plan a split that must be right."""
    checkpoint, problems = read_checkpoint(folder)
    assert checkpoint is not None, problems
    plan, problems = make_plan(checkpoint, wanted)
    assert plan is not None, problems
    return plan


def told(folder: Path, wanted: Wish) -> list[str]:
    """Plan a split that must not be possible, and give what is said about it."""
    checkpoint, problems = read_checkpoint(folder)
    if checkpoint is not None:
        plan, problems = make_plan(checkpoint, wanted)
        assert plan is None
    assert all(problem.level == "error" for problem in problems)
    return [problem.message + (f" | {problem.hint}" if problem.hint else "") for problem in problems]


def taken(parameter: Parameter, number: int, shards: list[bytes]) -> bytes:
    """Read the bytes of one parameter straight from the shards."""
    body = bytearray()
    for piece in parameter.pieces(number):
        for row in range(piece.rows):
            first = piece.offset + row * piece.stride
            body += (shards[piece.shard][first : first + piece.take] if piece.take else b"") + bytes(piece.pad)
    return bytes(body)
