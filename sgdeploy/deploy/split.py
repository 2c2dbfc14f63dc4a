"""The use cases of weights: split a checkpoint on this machine, and verify a split."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sgdeploy.deploy.events import Note, Outcome, SplitProgress, Tell
from sgdeploy.errors import CancelledRunError
from sgdeploy.weights.cut.text import bytes_text
from sgdeploy.weights.disk.split import Split
from sgdeploy.weights.disk.verify import Verified, verify
from sgdeploy.weights.worker.job import Done, Progress
from sgdeploy.words import plural

T = TypeVar("T")

INTERVAL = 1.0
"""Seconds between two events of progress."""


class _Throttle:
    """Passes progress on about once a second, and whenever the last file is done."""

    def __init__(self, tell: Tell, loop: asyncio.AbstractEventLoop) -> None:
        self._tell = tell
        self._loop = loop
        self._last = 0.0

    def __call__(self, event: SplitProgress) -> None:
        """Hear of progress, in whatever thread."""
        now = time.monotonic()
        if event.ended or now - self._last >= INTERVAL:
            self._last = now
            self._loop.call_soon_threadsafe(self._tell, event)


async def split(job: Split, tell: Tell) -> Done:
    """Write a split; an interruption leaves what is finished and says how to go on.

    Raises:
        CancelledRunError: interrupted.
        SgdeployError: as ``Split.run`` does.
    """
    started = time.monotonic()
    hear = _Throttle(tell, asyncio.get_running_loop())

    def beat(now: Progress) -> None:
        hear(SplitProgress("", now.files, now.of_files, now.written, now.of_bytes, now.rate, now.left))

    done = await _in_thread(lambda stopped: job.run(beat, stopped))
    if not done.complete:
        message = f"interrupted: {done.files} of {plural(done.of_files, 'file')} done"
        raise CancelledRunError(message, hint="run the same command to go on")
    if done.found:
        tell(Note(f"{done.found} of {plural(done.of_files, 'file')} were there already"))
    if done.stale:
        again = f"{done.stale} of {plural(done.of_files, 'file')} were made again"
        tell(Note(f"{again}: the checkpoint's files were changed or exchanged since an earlier run"))
    message = f"{plural(done.of_files, 'file')}, {bytes_text(done.size)} in {job.out}"
    tell(Outcome("split", message, time.monotonic() - started))
    return done


async def check(folder: Path, workers: int, tell: Tell) -> Verified:
    """Verify a split.

    Raises:
        CancelledRunError: interrupted.
        SgdeployError: as ``verify`` does.
    """
    started = time.monotonic()
    hear = _Throttle(tell, asyncio.get_running_loop())
    lock, read = threading.Lock(), 0

    def beat(count: int, of_bytes: int) -> None:
        nonlocal read
        with lock:
            read += count
            rate = read / max(time.monotonic() - started, 1e-6)
        left = (of_bytes - read) / rate if read else None
        hear(SplitProgress("", int(read >= of_bytes), 1, read, of_bytes, rate, left, "verify"))

    found = await _in_thread(lambda stopped: verify(folder, workers, beat, stopped))
    if found is None:
        raise CancelledRunError("interrupted before everything was read; nothing was changed")
    message = f"{plural(found.files, 'file')} of ranks {found.head.ranks} fit the manifest in {folder}"
    if found.unhashed:
        message += f"; {found.unhashed} of them have no hash there, their sizes alone were compared"
    tell(Outcome("verified", message, time.monotonic() - started))
    return found


async def _in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run work in a thread; when cancelled, tell it to stop and wait until it has."""
    stop = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, stop.is_set))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        return await task
