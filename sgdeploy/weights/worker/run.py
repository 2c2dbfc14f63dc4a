"""The split itself: lock, look, write, list, sign. Nothing is signed before all of it is there."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import closing

from . import journal, sign, sources, target
from .copy import BUFFER
from .job import Done, Job, Progress, RefusedError, parents
from .journal import Journal
from .lock import locked
from .shards import Shards, check_zeros
from .writer import Writer

LEAST = 8 * 1024 * 1024
"""Bytes that are needed beside the weights: for the manifest, and for what else is written there meanwhile."""


def run(job: Job, tell: Callable[[Progress], None], stopped: Callable[[], bool]) -> Done:
    """Write what is not there yet.

    Args:
        job: what to write, where and how.
        tell: hears of progress.
        stopped: asked again and again whether to stop.

    Raises:
        RefusedError: ``locked``, ``other-plan``, ``foreign``, ``damaged``, ``changed``, ``space``, ``short``,
            ``offset``, ``replicas``, ``size`` or ``disk``.
    """
    try:
        job.out.mkdir(parents=True, exist_ok=True)
        with locked(job.out):
            if job.start_over:
                target.start_over(job.out)
            target.check_owner(job.out, job.plan)
            sources.check(job)
            with closing(_open(job)) as log:
                return _write(job, log, tell, stopped)
    except OSError as error:
        path = None if error.filename is None else str(error.filename)
        raise RefusedError("disk", errno=error.errno, reason=error.strerror, path=path) from error


def _open(job: Job) -> Journal:
    """Look at what lies in the target, and open the journal with what an earlier run has signed for."""
    head = target.read_head(job.out)
    signed = {} if head is None else target.read_files(job.out, head)
    planned = frozenset(job.planned)
    # A killed run may have given a file its name without noting it: with a journal, all that is planned is ours.
    ours: Collection[str] = planned if journal.begun(job.out) is not None else signed.keys()
    target.check_foreign(job.out, planned, ours, parents(planned))
    facts = {key: value for key, value in job.head.items() if key not in {"sources", "arguments"}}
    log = Journal(job.out, job.plan, facts, sources.stamp(job))
    wanted = {file.path for file in job.files}
    for path, entry in signed.items():
        # Files of other ranks stay as they are signed: nobody here can make them again.
        log.adopt(path, entry, target.signed_at(job.out) if path in wanted else math.inf)
    return log


def _write(job: Job, log: Journal, tell: Callable[[Progress], None], stopped: Callable[[], bool]) -> Done:
    known = {file.path: log.done(file.path, file.size, job.hashed) for file in job.files}
    done = {path: entry for path, entry in known.items() if entry is not None}
    found, stale = len(done), sum(log.stale(file.path) for file in job.files)
    _check_space(job, done)
    sign.unsign(job.out, job.folders)
    target.sweep(job.out, parents(file.path for file in job.files))
    with closing(Shards(job.model, job.shards)) as shards:
        check_zeros(job.zeros, shards, BUFFER)
        end = Writer(job, shards, log, stopped).write(done, tell)
    entries = log.entries()
    folders = [folder for folder, paths in job.folders.items() if any(path in entries for path in paths)]
    result = Done(end, found, folders, stale)
    if result.complete:
        _check_unchanged(job, log)
        sign.copy_others(job, folders, log)
        sign.sign(job, folders, log.entries())
        log.remove()
    return result


def _check_unchanged(job: Job, log: Journal) -> None:
    """Look whether the checkpoint's files were exchanged while they were read; the next run then makes all again.

    Raises:
        RefusedError: they were (``changed``).
    """
    if sources.stamp(job) != log.source:
        raise RefusedError("changed", shard=None)


def _check_space(job: Job, done: Collection[str]) -> None:
    need = sum(file.size for file in job.files if file.twin is None and file.path not in done)
    free = target.free_space(job.out)
    if need and need + LEAST > free:
        raise RefusedError("space", need=need + LEAST, free=free)
