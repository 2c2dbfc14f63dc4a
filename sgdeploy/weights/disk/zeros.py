"""Tensors that may be dropped only because they hold nothing but zeros: looked at before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.model import Dropped
from sgdeploy.weights.disk.shards import Shards
from sgdeploy.weights.errors import CheckpointError

_CHUNK = 4 * 1024 * 1024


def check_zeros(dropped: Iterable[Dropped], shards: Shards) -> None:
    """Read the tensors that must be zero.

    Raises:
        CheckpointError: with each that is not.
    """
    buffer = memoryview(bytearray(_CHUNK))
    problems = []
    for drop in dropped:
        if drop.zero and not _zero(drop, shards, buffer):
            message = f"{drop.tensor.name} is not zero: the runtimes known here have no place for an offset"
            problems.append(Problem(message, "quantise the checkpoint symmetrically", code="offset"))
    if problems:
        raise CheckpointError(problems)


def _zero(drop: Dropped, shards: Shards, buffer: memoryview) -> bool:
    for first in range(0, drop.tensor.size, _CHUNK):
        room = buffer[: min(_CHUNK, drop.tensor.size - first)]
        shards.read_into(drop.tensor.shard, drop.tensor.offset + first, room)
        if any(room):
            return False
    return True
