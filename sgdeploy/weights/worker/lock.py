"""One writer at a time in a target folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .job import RefusedError

LOCK = ".sgdeploy-split.lock"


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the lock of a target for the body of the ``with``; it ends with the process, however that ends.

    Raises:
        RefusedError: another process is at work there (``locked``), with what it says of itself.
    """
    path = out / LOCK
    descriptor = _acquire(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "host": os.uname().nodename}).encode())
        yield
    finally:
        remove(path)
        os.close(descriptor)


def _acquire(path: Path) -> int:
    """Open and lock the file; one that its last owner has taken away in between is made anew."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(descriptor)
            os.close(descriptor)
            raise RefusedError("locked", owner=owner) from None
        if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
        os.close(descriptor)


def _owner(descriptor: int) -> dict[str, Any]:
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        path.unlink()
