"""A split in numbers: what each class contributes, what each rank and node gets, what is stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sgdeploy.weights.cut.model import Checkpoint, Parameter, SplitPlan
from sgdeploy.weights.cut.schema import EXPERTS
from sgdeploy.weights.cut.sizes import Sizes
from sgdeploy.weights.cut.targets import OutFile


@dataclass(frozen=True)
class ClassRow:
    """One class of tensors.

    Attributes:
        name: of the class.
        rule: that was applied, with what it cuts over: ``attention TP 16``.
        tensors: of the checkpoint.
        read: their bytes.
        parameters: that they become on each rank.
        rank: bytes on each rank of a stage, as an average over the stages.
    """

    name: str
    rule: str
    tensors: int
    read: int
    parameters: int
    rank: int


@dataclass(frozen=True)
class FolderRow:
    """The files of one folder: how many, how many of them are links, and the bytes that are really stored."""

    folder: str
    files: int
    links: int
    stored: int


@dataclass(frozen=True)
class DropRow:
    """Tensors that go nowhere for the same reason."""

    reason: str
    tensors: int
    size: int
    first: str


@dataclass(frozen=True)
class Report:
    """A split in numbers; bytes throughout.

    Attributes:
        plan: digest.
        facts: scheme, layout and sizes.
        shards: of the checkpoint.
        tensors: of the checkpoint.
        read: bytes of all its tensors.
        classes: what they are.
        folders: what is written.
        dropped: what is not.
        ranks: whose files are written, as ``0-255``.
        files: to be made, links included.
        links: of them that are links.
        written: bytes of all files, links counted in full.
        stored: bytes that they take.
        node: bytes that a node stores that makes its own part alone; None where the nodes are not known.
        copied: other files that go along.
        left: other files that stay behind.
    """

    plan: str
    facts: dict[str, Any]
    shards: int
    tensors: int
    read: int
    classes: tuple[ClassRow, ...]
    folders: tuple[FolderRow, ...]
    dropped: tuple[DropRow, ...]
    ranks: str
    files: int
    links: int
    written: int
    stored: int
    node: int | None
    copied: tuple[str, ...]
    left: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Give it as plain JSON values."""
        return asdict(self)


def class_rows(plan: SplitPlan, sizes: Sizes) -> tuple[ClassRow, ...]:
    """Sum up by class, in the order of the families' rows."""
    found: dict[str, list[tuple[Parameter, int]]] = {}
    for bundle in plan.bundles:
        # A rank holds a single file of a bundle only where it owns it.
        share = 1.0 if bundle.owners is None else len(bundle.owners) / sizes.tp
        for each in bundle.parameters:
            found.setdefault(each.kind, []).append((each, round(each.size * share)))
    rows = []
    for kind, members in found.items():
        tensors = {(t.shard, t.offset): t.size for each, _ in members for t in each.tensors()}
        rule = _experts(sizes, plan) if kind == EXPERTS else sizes.words(plan.rules[kind])
        rank = sum(size for _, size in members) // sizes.pp
        rows.append(ClassRow(kind, rule, len(tensors), sum(tensors.values()), len(members), rank))
    return tuple(rows)


def _experts(sizes: Sizes, plan: SplitPlan) -> str:
    if plan.facts.get("layout") == "kunpeng_state":
        return "a file for each"
    cut = f", each in {sizes.expert_tp}" if sizes.expert_tp > 1 else ""
    return f"ep {sizes.ep}{cut}"


def folder_rows(files: Sequence[OutFile]) -> tuple[FolderRow, ...]:
    """Sum up by folder."""
    found: dict[str, list[OutFile]] = {}
    for file in files:
        found.setdefault(file.bundle.folder, []).append(file)
    return tuple(
        FolderRow(
            folder,
            len(members),
            sum(file.twin is not None for file in members),
            sum(file.size for file in members if file.twin is None),
        )
        for folder, members in found.items()
    )


def drop_rows(plan: SplitPlan) -> tuple[DropRow, ...]:
    """Sum up what is dropped, by reason."""
    found: dict[str, list[tuple[str, int]]] = {}
    for drop in plan.dropped:
        found.setdefault(drop.reason, []).append((drop.tensor.name, drop.tensor.size))
    return tuple(
        DropRow(reason, len(members), sum(size for _, size in members), members[0][0])
        for reason, members in found.items()
    )


def stored(files: Sequence[OutFile]) -> int:
    """Give the bytes that files take; links take none."""
    return sum(file.size for file in files if file.twin is None)


def report(
    plan: SplitPlan, checkpoint: Checkpoint, sizes: Sizes, files: Sequence[OutFile], extra: dict[str, Any]
) -> Report:
    """Make a report; ``extra`` holds the fields ranks, node, copied and left."""
    return Report(
        plan=plan.digest,
        facts=dict(plan.facts),
        shards=len(checkpoint.shards),
        tensors=len(checkpoint.tensors),
        read=sum(tensor.size for tensor in checkpoint.tensors.values()),
        classes=class_rows(plan, sizes),
        folders=folder_rows(files),
        dropped=drop_rows(plan),
        files=len(files),
        links=sum(file.twin is not None for file in files),
        written=sum(file.size for file in files),
        stored=stored(files),
        **extra,
    )
