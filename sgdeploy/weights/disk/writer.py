"""Writing the files of a split: a pool of workers, a journal, progress, and an orderly stop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from sgdeploy.errors import StateError
from sgdeploy.weights.cut.header import write_header
from sgdeploy.weights.cut.manifest import Entry
from sgdeploy.weights.cut.model import Piece
from sgdeploy.weights.cut.targets import OutFile
from sgdeploy.weights.disk.copy import Copier, StoppedError
from sgdeploy.weights.disk.journal import Journal
from sgdeploy.weights.disk.replicas import Replicas, replicate
from sgdeploy.weights.disk.shards import Shards
from sgdeploy.weights.disk.target import PARTIAL

HEARTBEAT = 0.25
"""Seconds between two reports of progress."""


@dataclass(frozen=True)
class Progress:
    """How far the work is.

    Attributes:
        files: that are done.
        of_files: in all.
        written: bytes that are done, those of an earlier run included; links count nothing.
        of_bytes: in all.
        rate: bytes per second of this run so far.
        left: seconds until the end at this rate; None before it can be told.
    """

    files: int
    of_files: int
    written: int
    of_bytes: int
    rate: float
    left: float | None


@dataclass(frozen=True)
class How:
    """How files are written.

    Attributes:
        workers: files at the same time.
        hashed: whether each file's SHA-256 is computed on the way.
        synced: whether each file is forced to the disk before it gets its name.
    """

    workers: int
    hashed: bool = True
    synced: bool = False


class Counters:
    """What the workers have done, for progress."""

    def __init__(self, of_files: int, of_bytes: int, files: int, written: int) -> None:
        """Start with what an earlier run has done."""
        self._lock = threading.Lock()
        self._total = (of_files, of_bytes)
        self._before = written
        self._started = time.monotonic()
        self._files, self._written = files, written

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
        seconds = max(time.monotonic() - self._started, 1e-6)
        new = self._written - self._before
        rate = new / seconds
        left = (self._total[1] - self._written) / rate if new else None
        return Progress(self._files, self._total[0], self._written, self._total[1], rate, left)


class Writer:
    """Writes files into one target."""

    def __init__(
        self,
        target: Path,
        shards: Shards,
        journal: Journal,
        how: How,
        replicas: Replicas,
        stopped: Callable[[], bool],
    ) -> None:
        """Keep what is needed; nothing is written yet. ``stopped`` is asked again and again whether to stop."""
        self._target = target
        self._shards = shards
        self._journal = journal
        self._how = how
        self._replicas: Replicas = replicas
        self._stopped = stopped
        self._failed = threading.Event()
        self._local = threading.local()

    def write(self, files: Sequence[OutFile], done: dict[str, Entry], tell: Callable[[Progress], None]) -> Progress:
        """Write what is not done yet; links come last.

        Args:
            files: all that is wanted.
            done: what an earlier run has finished; what this one finishes is added.
            tell: hears of progress four times a second.

        Returns:
            How far it came; fewer files than wanted mean that it was stopped.

        Raises:
            SgdeployError: a shard, a disk or a file system failed.
            OSError: likewise.
        """
        for folder in {(self._target / file.path).parent for file in files}:
            folder.mkdir(parents=True, exist_ok=True)
        whole = [file for file in files if file.twin is None]
        of_bytes = sum(file.size for file in whole)
        before = sum(file.size for file in whole if file.path in done)
        counters = Counters(len(files), of_bytes, sum(file.path in done for file in files), before)
        jobs = [file for file in whole if file.path not in done]
        self._pool(jobs, done, counters, lambda: tell(counters.progress()))
        for file in files:
            if file.twin is not None and file.path not in done and not self._halted():
                replicate(self._target, file.path, file.twin, self._replicas)
                self._finish(file, done[file.twin], done, counters)
        tell(counters.progress())
        return counters.progress()

    def _halted(self) -> bool:
        """Tell whether to stop: somebody wishes it, or another worker has failed."""
        return self._failed.is_set() or self._stopped()

    def _pool(
        self, jobs: Sequence[OutFile], done: dict[str, Entry], counters: Counters, beat: Callable[[], None]
    ) -> None:
        with ThreadPoolExecutor(self._how.workers, thread_name_prefix="split") as pool:
            futures: set[Future[None]] = {pool.submit(self._job, file, done, counters) for file in jobs}
            try:
                while futures:
                    ended, futures = wait(futures, HEARTBEAT, FIRST_EXCEPTION)
                    beat()
                    for future in ended:
                        future.result()
            except BaseException:
                self._failed.set()
                raise

    def _job(self, file: OutFile, done: dict[str, Entry], counters: Counters) -> None:
        if self._halted():
            return
        final = self._target / file.path
        partial = final.with_name(f".{final.name}{PARTIAL}")
        try:
            digest = self._fill(partial, file, counters)
        except StoppedError:
            partial.unlink(missing_ok=True)
            return
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        final.unlink(missing_ok=True)
        partial.replace(final)
        self._finish(file, Entry(size=file.size, sha256=digest), done, counters)

    def _fill(self, partial: Path, file: OutFile, counters: Counters) -> str | None:
        copier: Copier | None = getattr(self._local, "copier", None)
        if copier is None:
            copier = Copier(self._shards, hashed=self._how.hashed, stopped=self._halted, wrote=counters.add)
            self._local.copier = copier
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            digest = copier.write(descriptor, write_header(file.bundle.parameters), _pieces(file))
            size = os.fstat(descriptor).st_size
            if size != file.size:
                raise StateError(f"{file.path} has {size} bytes and should have {file.size}", hint="run again")
            if self._how.synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return digest

    def _finish(self, file: OutFile, entry: Entry, done: dict[str, Entry], counters: Counters) -> None:
        self._journal.record(file.path, entry)
        done[file.path] = entry
        counters.finish()


def _pieces(file: OutFile) -> Iterator[Piece]:
    for parameter in file.bundle.parameters:
        yield from parameter.pieces(file.number)
