"""The open shards of a checkpoint. Reads name their offset, so that all workers share one descriptor per shard."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from .job import RefusedError


class Shards:
    """Opens each shard when it is first read; ``close`` closes all."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        """Name the shards; nothing is opened yet."""
        self._folder = folder
        self._names = names
        self._open: dict[int, int] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close what is open."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def descriptor(self, shard: int) -> int:
        """Give the open file of a shard."""
        found = self._open.get(shard)
        if found is None:
            with self._lock:
                found = self._open.get(shard)
                if found is None:
                    path = self._folder / self._names[shard]
                    found = self._open[shard] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return found

    def read_into(self, shard: int, offset: int, room: memoryview) -> None:
        """Fill a piece of memory.

        Raises:
            RefusedError: the shard has become shorter since its header was read (``short``).
        """
        done = 0
        while done < len(room):
            got = os.preadv(self.descriptor(shard), [room[done:]], offset + done)
            if got == 0:
                raise self.short(shard)
            done += got

    def short(self, shard: int) -> RefusedError:
        """Make the error for a shard that ends too early."""
        return RefusedError("short", shard=self._names[shard])


def check_zeros(zeros: Sequence[tuple[str, int, int, int]], shards: Shards, room: int) -> None:
    """Read the tensors that must hold nothing but zeros, ``room`` bytes at a time.

    Raises:
        RefusedError: with the name of each that does not (``offset``).
    """
    buffer = memoryview(bytearray(room))
    wrong = []
    for name, shard, offset, size in zeros:
        for first in range(0, size, room):
            part = buffer[: min(room, size - first)]
            shards.read_into(shard, offset + first, part)
            if any(part):
                wrong.append(name)
                break
    if wrong:
        raise RefusedError("offset", names=wrong)
