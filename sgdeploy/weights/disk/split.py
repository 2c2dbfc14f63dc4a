"""A prepared split as a job, and the job done on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sgdeploy import __version__
from sgdeploy.weights.cut.header import write_header
from sgdeploy.weights.cut.model import Piece, SplitPlan
from sgdeploy.weights.cut.sizes import Sizes
from sgdeploy.weights.cut.targets import OutFile, out_files
from sgdeploy.weights.disk.refusals import Target, explain
from sgdeploy.weights.disk.request import Prepared
from sgdeploy.weights.worker.job import Done, File, Job, Progress, RefusedError
from sgdeploy.weights.worker.run import run


@dataclass(frozen=True)
class How:
    """How files are written.

    Attributes:
        workers: files at the same time.
        hashed: whether each file's SHA-256 is computed on the way.
        synced: whether each file is forced to the disk before it gets its name.
        start_over: whether to remove first what an earlier run wrote.
    """

    workers: int
    hashed: bool = True
    synced: bool = False
    start_over: bool = False


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
    arguments: tuple[str, ...] = field(default=())

    def run(self, tell: Callable[[Progress], None], stopped: Callable[[], bool]) -> Done:
        """Write what is not there yet, on this machine.

        Args:
            tell: hears of progress four times a second.
            stopped: asked again and again whether to stop.

        Raises:
            LockedError: another process writes there.
            CheckpointError: foreign files lie there.
            TargetError: it does not fit, or the disk fails.
            StateError: another plan's split lies there, a manifest is damaged, or a source changed.
            ReplicaError: the file system cannot do what was chosen for replicas.
        """
        try:
            return run(self.job(self.prepared.files), tell, stopped)
        except RefusedError as refusal:
            raise explain(refusal.code, refusal.details, self.target) from refusal

    @property
    def target(self) -> Target:
        """What messages are about."""
        return Target(str(self.out), self.prepared.plan.facts, self.prepared.report.node)

    def job(self, files: tuple[OutFile, ...]) -> Job:
        """Write some of the plan's files down as a job."""
        prepared = self.prepared
        plan, sizes = prepared.plan, prepared.request.wish.sizes
        return Job(
            [File(each.path, each.size, each.twin, _header(each), _pieces(each)) for each in files],
            model=str(prepared.request.model),
            out=str(self.out),
            shards=[shard.name for shard in prepared.checkpoint.shards],
            zeros=[(d.tensor.name, d.tensor.shard, d.tensor.offset, d.tensor.size) for d in plan.dropped if d.zero],
            others=list(prepared.report.copied),
            folders=_folders(plan),
            rank_files=_rank_files(plan),
            needs=_needs(plan, sizes),
            head=self._head(),
            workers=self.how.workers,
            hashed=self.how.hashed,
            synced=self.how.synced,
            replicas=prepared.request.replicas,
            start_over=self.how.start_over,
        )

    def _head(self) -> dict[str, Any]:
        """Give the manifest's head as far as it is known before anything is written."""
        sources = [{"name": s.name, "size": s.size, "header": s.header} for s in self.prepared.checkpoint.shards]
        return {
            "version": 1,
            "tool": f"sgdeploy {__version__}",
            "plan": self.prepared.plan.digest,
            **self.prepared.plan.facts,
            "arguments": list(self.arguments),
            "sources": sources,
        }


def _folders(plan: SplitPlan) -> dict[str, list[str]]:
    """Give folder → every path of weights that may be written there."""
    found: dict[str, list[str]] = {}
    for bundle in plan.bundles:
        found.setdefault(bundle.folder, []).extend(bundle.file(number) for number in range(bundle.count))
    return found


def _rank_files(plan: SplitPlan) -> dict[str, list[dict[str, Any]]]:
    """Give folder → what every rank of its stage loads from it, with the size that all of these files have."""
    found: dict[str, list[dict[str, Any]]] = {}
    for bundle in plan.bundles:
        if bundle.owners is None:
            row = {"name": bundle.path, "count": bundle.count, "size": bundle.file_size}
            found.setdefault(bundle.folder, []).append(row)
    return found


def _needs(plan: SplitPlan, sizes: Sizes) -> dict[str, list[str]]:
    """Give rank → the paths of its files."""
    return {
        str(rank): [file.path for file in out_files(plan, sizes, (rank,), linked=False)] for rank in range(sizes.world)
    }


def _header(file: OutFile) -> Callable[[], bytes]:
    return lambda: write_header(file.bundle.parameters)


def _pieces(file: OutFile) -> Callable[[], Iterator[Piece]]:
    def pieces() -> Iterator[Piece]:
        for parameter in file.bundle.parameters:
            yield from parameter.pieces(file.number)

    return pieces
