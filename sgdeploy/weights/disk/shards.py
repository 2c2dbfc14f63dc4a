"""The open shards of a checkpoint. Reads name their offset, so that all workers share one descriptor per shard."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from sgdeploy.errors import StateError


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
                    found = self._open[shard] = os.open(self._folder / self._names[shard], os.O_RDONLY | os.O_CLOEXEC)
        return found

    def read_into(self, shard: int, offset: int, room: memoryview) -> None:
        """Fill a piece of memory.

        Raises:
            StateError: the shard has become shorter since its header was read.
        """
        done = 0
        while done < len(room):
            got = os.preadv(self.descriptor(shard), [room[done:]], offset + done)
            if got == 0:
                raise self.short(shard)
            done += got

    def short(self, shard: int) -> StateError:
        """Make the error for a shard that ends too early."""
        name = self._names[shard]
        return StateError(
            f"{name} became shorter while it was read", hint="let nobody write to the model folder, and run again"
        )
