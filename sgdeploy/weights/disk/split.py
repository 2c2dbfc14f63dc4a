"""The split itself: lock, look, write, list, sign. Nothing is signed before all of it is there."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sgdeploy.weights.cut.targets import present_folders
from sgdeploy.weights.cut.text import bytes_text
from sgdeploy.weights.disk import journal, sign, target
from sgdeploy.weights.disk.journal import Journal
from sgdeploy.weights.disk.lock import locked
from sgdeploy.weights.disk.request import Prepared
from sgdeploy.weights.disk.shards import Shards
from sgdeploy.weights.disk.writer import How, Progress, Writer
from sgdeploy.weights.disk.zeros import check_zeros
from sgdeploy.weights.errors import TargetError

_LEAST = 64 * 1024 * 1024
"""Free bytes that must remain: for the manifest, and for what else lives on the file system."""


@dataclass(frozen=True)
class Done:
    """What a run came to.

    Attributes:
        complete: whether all that was wanted is there; else it was interrupted.
        files: that are there now.
        of_files: that were wanted.
        found: that an earlier run had finished.
        size: bytes of the files that were wanted; links count nothing.
        folders: below the target, that a runtime loads from.
    """

    complete: bool
    files: int
    of_files: int
    found: int
    size: int
    folders: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """A split on its way to the disk.

    Attributes:
        prepared: what to write.
        out: where.
        how: workers and hashing.
        arguments: of the command, for the manifest.
    """

    prepared: Prepared
    out: Path
    how: How
    arguments: tuple[str, ...] = ()

    def run(self, tell: Callable[[Progress], None], stopped: Callable[[], bool], *, start_over: bool = False) -> Done:
        """Write what is not there yet.

        Args:
            tell: hears of progress.
            stopped: asked again and again whether to stop.
            start_over: whether to remove first what an earlier run wrote.

        Raises:
            LockedError: another process writes there.
            CheckpointError: foreign files lie there.
            TargetError: it does not fit, or the disk fails.
            StateError: another plan's split lies there, a manifest is damaged, or a source changed.
            ReplicaError: the file system cannot do what was chosen for replicas.
        """
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            with locked(self.out):
                if start_over:
                    target.start_over(self.out)
                target.check_owner(self.out, self.prepared.plan)
                with closing(self._journal()) as log:
                    return self._write(log, tell, stopped)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> TargetError:
        again = "run the same command again; what is finished is kept"
        if error.errno == errno.ENOSPC:
            return TargetError(f"no space is left on the file system of {self.out}", hint=f"make room and {again}")
        where = f" ({error.filename})" if error.filename else ""
        return TargetError(f"writing to {self.out} failed: {error.strerror}{where}", hint=f"mend that and {again}")

    def _journal(self) -> Journal:
        """Look at what lies in the target, and open the journal with what an earlier run has signed for."""
        begun = journal.begun(self.out) is not None
        head = target.read_head(self.out)
        signed = {} if head is None else target.read_files(self.out, head)
        planned = self._planned()
        # A killed run may have given a file its name without noting it: with a journal, all that is planned is ours.
        target.check_foreign(self.out, planned, planned if begun else signed.keys(), self._folders())
        log = Journal(self.out, self.prepared.plan.digest, self.prepared.plan.facts)
        for path, entry in signed.items():
            log.adopt(path, entry)
        return log

    def _planned(self) -> set[str]:
        """Give every path that any run of this plan may write."""
        plan = self.prepared.plan
        files = {bundle.file(number) for bundle in plan.bundles for number in range(bundle.count)}
        return files | {sign.below(folder, name) for folder in self._folders() for name in self.prepared.report.copied}

    def _folders(self) -> list[str]:
        return list(dict.fromkeys(bundle.folder for bundle in self.prepared.plan.bundles))

    def _write(self, log: Journal, tell: Callable[[Progress], None], stopped: Callable[[], bool]) -> Done:
        prepared, files = self.prepared, self.prepared.files
        known = {file.path: log.done(file.path, file.size, hashed=self.how.hashed) for file in files}
        done = {path: entry for path, entry in known.items() if entry is not None}
        found = len(done)
        self._check_space(done)
        sign.unsign(self.out, self._folders())
        target.sweep(self.out, {str(Path(file.path).parent) for file in files})
        with closing(Shards(prepared.request.model, [shard.name for shard in prepared.checkpoint.shards])) as shards:
            check_zeros(prepared.plan.dropped, shards)
            writer = Writer(self.out, shards, log, self.how, prepared.request.replicas, stopped)
            end = writer.write(files, done, tell)
        folders = tuple(present_folders(prepared.plan, log.known()))
        complete = end.files == end.of_files
        if complete:
            sign.copy_others(prepared, self.out, folders, log)
            sign.sign(prepared, self.out, folders, log.entries(), self.arguments)
            log.remove()
        return Done(complete, end.files, end.of_files, found, end.of_bytes, folders)

    def _check_space(self, done: Collection[str]) -> None:
        need = sum(file.size for file in self.prepared.files if file.twin is None and file.path not in done)
        free = target.free_space(self.out)
        if need and need + _LEAST > free:
            node = self.prepared.report.node
            with_nodes = "" if node is None else f". With --node-rank each node needs {bytes_text(node)}"
            raise TargetError(
                f"need {bytes_text(need)} on {self.out}, {bytes_text(free)} free{with_nodes}",
                hint="make room, choose another --out, or split for fewer ranks: --ranks",
            )
