"""The target folder before anything is written: is it fit, whose is it, what lies in it, is there room?"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from sgdeploy.errors import StateError
from sgdeploy.problems import Problem
from sgdeploy.weights.cut import manifest
from sgdeploy.weights.cut.manifest import FILES, HEAD, Head
from sgdeploy.weights.cut.model import SplitPlan
from sgdeploy.weights.disk import journal
from sgdeploy.weights.errors import CheckpointError

PARTIAL = ".partial"


def check_paths(model: Path, target: Path) -> Iterator[Problem]:
    """Find what is wrong with the target's path whatever lies there."""
    odd = next((mark for mark in "[]*?" if mark in str(target.absolute())), None)
    if odd is not None:
        message = f"the path {target} contains '{odd}': SGLang passes it to glob and will not find the files"
        yield Problem(message, "choose another name", code="target")
    real, source = target.resolve(), model.resolve()
    if real == source:
        yield Problem("the output is the model directory itself", "choose another --out", code="target")
    elif source in real.parents:
        yield Problem(f"output lies inside the model directory {model}", "choose another --out", code="target")
    if target.exists() and not target.is_dir():
        yield Problem(f"{target} is no folder", "choose another --out", code="target")


def read_head(folder: Path) -> Head | None:
    """Read the manifest's head in a folder; None where there is none.

    Raises:
        StateError: it is damaged.
    """
    try:
        text = (folder / HEAD).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    found = manifest.read_head(text)
    if isinstance(found, str):
        raise StateError(f"{folder / HEAD} is damaged: {found}", hint="split again into another folder")
    return found


def read_files(target: Path, head: Head) -> dict[str, manifest.Entry]:
    """Read the manifest's list of files.

    Raises:
        StateError: it is missing, or not the one that the head speaks of.
    """
    try:
        found = manifest.read_files((target / FILES).read_text(encoding="utf-8"), head.digest)
    except OSError as error:
        raise StateError(f"{target / FILES} cannot be read: {error.strerror}", hint="split again") from error
    if isinstance(found, str):
        raise StateError(f"{target / FILES} does not belong to {HEAD}: {found}", hint="split again")
    return found


def check_owner(target: Path, plan: SplitPlan) -> None:
    """Refuse a target that holds the split of another plan, whole or begun.

    Raises:
        StateError: it does, or its manifest is damaged.
    """
    other = journal.begun(target)
    if other is None:
        head = read_head(target)
        other = None if head is None else (head.plan, head.model_dump())
    if other is None or other[0] == plan.digest:
        return
    differ = [
        f"{key} {other[1][key]} there, {now} here" for key, now in plan.facts.items() if other[1].get(key, now) != now
    ]
    why = "; ".join(differ) or "the checkpoint, or the rules of this sgdeploy, are others"
    raise StateError(
        f"{target} holds a split by another plan: {why}",
        hint="choose another --out, or pass --start-over to remove that split first",
    )


def check_foreign(target: Path, planned: Collection[str], ours: Collection[str], folders: Collection[str]) -> None:
    """Refuse files that the runtime would load as well, and planned files that somebody else wrote.

    Args:
        target: the folder.
        planned: every path of the plan.
        ours: paths that an earlier run of this plan may have written.
        folders: where runtimes look, below the target.

    Raises:
        CheckpointError: with every such file.
    """
    problems = []
    for path in sorted(set(rank_files(target, folders)) | {path for path in planned if (target / path).exists()}):
        if path not in planned:
            message = f"{target / path} is not from this plan and would be loaded as well"
            problems.append(Problem(message, "remove it, or choose another --out", code="foreign"))
        elif path not in ours:
            message = f"{target / path} exists already and was not written by this plan"
            problems.append(Problem(message, "remove it, or choose another --out", code="foreign"))
    if problems:
        raise CheckpointError(problems)


def rank_files(target: Path, folders: Collection[str]) -> Iterator[str]:
    """Name the files that a runtime would take for a rank's."""
    for folder in folders:
        where = target / folder
        if where.is_dir():
            for entry in where.iterdir():
                if entry.name.startswith("model-rank-"):
                    yield f"{folder}/{entry.name}" if folder else entry.name


def start_over(target: Path) -> int:
    """Remove what an earlier run wrote, and only that; gives the number of files."""
    files = set(journal.files_of(target))
    head = read_head(target)
    if head is not None:
        files |= read_files(target, head).keys()
    folders = {target} | {(target / path).parent for path in files}
    for path in files:
        (target / path).unlink(missing_ok=True)
    for folder in folders:
        (folder / HEAD).unlink(missing_ok=True)
    for name in (FILES, journal.JOURNAL):
        (target / name).unlink(missing_ok=True)
    for folder in sorted(folders - {target}, key=lambda folder: -len(folder.parts)):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return len(files)


def free_space(target: Path) -> int:
    """Give the bytes that our user may still write on the target's file system."""
    nearest = target.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    found = os.statvfs(nearest)
    return found.f_bavail * found.f_frsize


def sweep(target: Path, folders: Collection[str]) -> None:
    """Remove unfinished files that a killed run left."""
    for folder in folders:
        where = target / folder
        if where.is_dir():
            for entry in where.iterdir():
                if entry.name.startswith(".") and entry.name.endswith(PARTIAL):
                    entry.unlink(missing_ok=True)
