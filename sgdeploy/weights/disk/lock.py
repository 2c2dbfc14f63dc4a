"""One writer at a time in a target folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sgdeploy.errors import LockedError

LOCK = ".sgdeploy-split.lock"


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock of a target for the body of the ``with``; it ends with the process, however that ends.

    Raises:
        LockedError: another process is at work there; it is named.
    """
    path = target / LOCK
    descriptor = _acquire(path)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "host": os.uname().nodename}).encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path) -> int:
    """Open and lock the file; one that its last owner has taken away in between is made anew."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"another split-weights ({_owner(descriptor)}) is writing to {path.parent}"
            os.close(descriptor)
            raise LockedError(message, hint="wait until it has ended") from error
        if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
            return descriptor
        os.close(descriptor)


def _owner(descriptor: int) -> str:
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        here = owner["host"] == os.uname().nodename
        return f"pid {owner['pid']}" + ("" if here else f" on {owner['host']}")
    except (ValueError, KeyError, TypeError):
        return "its pid is not known"
