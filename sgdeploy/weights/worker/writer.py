"""Writing the files of a split: a pool of workers, a journal, progress, and an orderly stop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from .copy import Copier
from .job import File, Job, Progress, RefusedError, StoppedError, parents
from .journal import Entry, Journal
from .lock import remove
from .replicas import partial_of, replicate
from .shards import Shards

HEARTBEAT = 0.25
"""Seconds between two reports of progress."""


class Counters:
    """What the workers have done, for progress."""

    def __init__(self, of_files: int, of_bytes: int, files: int, written: int) -> None:
        """Start with what an earlier run has done."""
        self._lock = threading.Lock()
        self._of_files, self._of_bytes = of_files, of_bytes
        self._files, self._written, self._before = files, written, written
        self._started = time.monotonic()

    def add(self, count: int) -> None:
        """Count bytes."""
        with self._lock:
            self._written += count

    def finish(self) -> None:
        """Count a file."""
        with self._lock:
            self._files += 1

    def progress(self) -> Progress:
        """Tell how far it is."""
        new = self._written - self._before
        rate = new / max(time.monotonic() - self._started, 1e-6)
        left = (self._of_bytes - self._written) / rate if new else None
        return Progress(self._files, self._of_files, self._written, self._of_bytes, rate, left)


class Writer:
    """Writes the files of one job."""

    def __init__(self, job: Job, shards: Shards, log: Journal, stopped: Callable[[], bool]) -> None:
        """Keep what is needed; nothing is written yet. ``stopped`` is asked again and again whether to stop."""
        self._job = job
        self._shards = shards
        self._log = log
        self._stopped = stopped
        self._failed = threading.Event()
        self._local = threading.local()

    def write(self, done: dict[str, Entry], tell: Callable[[Progress], None]) -> Progress:
        """Write what is not done yet; links come last.

        Args:
            done: what an earlier run has finished; what this one finishes is added.
            tell: hears of progress four times a second.

        Returns:
            How far it came; fewer files than wanted mean that it was stopped.

        Raises:
            RefusedError: a shard or a file system failed.
            OSError: a disk failed, or is full.
        """
        files = self._job.files
        for folder in parents(file.path for file in files):
            (self._job.out / folder).mkdir(parents=True, exist_ok=True)
        whole = [file for file in files if file.twin is None]
        before = sum(file.size for file in whole if file.path in done)
        of_bytes = sum(file.size for file in whole)
        counters = Counters(len(files), of_bytes, sum(file.path in done for file in files), before)
        missing = [file for file in whole if file.path not in done]
        self._pool(missing, done, counters, lambda: tell(counters.progress()))
        for file in files:
            if file.twin is not None and file.path not in done and not self._halted():
                replicate(self._job.out, file.path, file.twin, self._job.replicas)
                self._finish(file, done[file.twin]["sha256"], done, counters)
        tell(counters.progress())
        return counters.progress()

    def _halted(self) -> bool:
        """Tell whether to stop: somebody wishes it, or another worker has failed."""
        return self._failed.is_set() or self._stopped()

    def _pool(
        self, missing: Sequence[File], done: dict[str, Entry], counters: Counters, beat: Callable[[], None]
    ) -> None:
        with ThreadPoolExecutor(self._job.workers, thread_name_prefix="split") as pool:
            futures: set[Future[None]] = {pool.submit(self._one, file, done, counters) for file in missing}
            try:
                while futures:
                    ended, futures = wait(futures, HEARTBEAT, FIRST_EXCEPTION)
                    beat()
                    for future in ended:
                        future.result()
            except BaseException:
                self._failed.set()
                raise

    def _one(self, file: File, done: dict[str, Entry], counters: Counters) -> None:
        if self._halted():
            return
        final = self._job.out / file.path
        partial = partial_of(final)
        try:
            digest = self._fill(partial, file, counters)
        except StoppedError:
            remove(partial)
            return
        except BaseException:
            remove(partial)
            raise
        remove(final)
        partial.rename(final)
        self._finish(file, digest, done, counters)

    def _fill(self, partial: Path, file: File, counters: Counters) -> str | None:
        copier: Copier | None = getattr(self._local, "copier", None)
        if copier is None:
            copier = Copier(self._shards, hashed=self._job.hashed, stopped=self._halted, wrote=counters.add)
            self._local.copier = copier
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            digest = copier.write(descriptor, file.header(), file.pieces())
            size = os.fstat(descriptor).st_size
            if size != file.size:
                raise RefusedError("size", path=file.path, size=size, expected=file.size)
            if self._job.synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return digest

    def _finish(self, file: File, digest: str | None, done: dict[str, Entry], counters: Counters) -> None:
        done[file.path] = self._log.record(file.path, file.size, digest)
        counters.finish()
