"""The target folder before anything is written: whose is it, what lies in it, is there room?"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import journal
from .job import FILES, HEAD, PARTIAL, RefusedError, below, parents
from .lock import remove


def read_head(folder: Path) -> dict[str, Any] | None:
    """Read the manifest's head in a folder; None where there is none.

    Raises:
        RefusedError: it is damaged (``damaged``).
    """
    path = folder / HEAD
    try:
        head = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise RefusedError("damaged", path=str(path), reason=str(error)) from error
    if not isinstance(head, dict) or not all(isinstance(head.get(key), str) for key in ("plan", "digest")):
        raise RefusedError("damaged", path=str(path), reason="it names no plan")
    return head


def read_files(out: Path, head: Mapping[str, Any]) -> dict[str, journal.Entry]:
    """Read the manifest's list of files.

    Raises:
        RefusedError: it is missing, or not the one that the head speaks of (``damaged``).
    """
    path = out / FILES
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RefusedError("damaged", path=str(path), reason=error.strerror) from error
    digest = hashlib.sha256(text).hexdigest()
    if digest != head["digest"]:
        raise RefusedError("damaged", path=str(path), reason=f"its SHA-256 is {digest}, {HEAD} says {head['digest']}")
    found: dict[str, journal.Entry] = json.loads(text)
    return found


def signed_at(out: Path) -> int:
    """Give when the list of files was written, nanoseconds: what is younger was touched after that."""
    return (out / FILES).stat().st_mtime_ns


def check_owner(out: Path, plan: str) -> None:
    """Refuse a target that holds the split of another plan, whole or begun.

    Raises:
        RefusedError: it does (``other-plan``), or its manifest is damaged.
    """
    other = journal.begun(out)
    if other is None:
        head = read_head(out)
        other = None if head is None else (head["plan"], head)
    if other is not None and other[0] != plan:
        raise RefusedError("other-plan", facts=dict(other[1]))


def check_foreign(out: Path, planned: Collection[str], ours: Collection[str], folders: Iterable[str]) -> None:
    """Refuse files that the runtime would load as well, and planned files that somebody else wrote.

    Args:
        out: the folder.
        planned: every path of the plan.
        ours: paths that an earlier run of this plan may have written.
        folders: where runtimes look, below the target.

    Raises:
        RefusedError: with every such file (``foreign``).
    """
    there = set(rank_files(out, folders)) | {path for path in planned if os.path.lexists(out / path)}
    extra = sorted(path for path in there if path not in planned)
    taken = sorted(path for path in there if path in planned and path not in ours)
    if extra or taken:
        raise RefusedError("foreign", extra=extra, taken=taken)


def rank_files(out: Path, folders: Iterable[str]) -> Iterator[str]:
    """Name the files that a runtime would take for a rank's."""
    for folder in folders:
        for name in _names(out / folder):
            if name.startswith("model-rank-"):
                yield below(folder, name)


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def start_over(out: Path) -> None:
    """Remove what an earlier run wrote, and only that."""
    files = set(journal.files_of(out))
    head = read_head(out)
    if head is not None:
        files |= set(read_files(out, head))
    for path in files:
        remove(out / path)
    for folder in sorted({"", *parents(files)}, key=lambda folder: -len(folder)):
        remove(out / folder / HEAD)
        if folder and (out / folder).is_dir() and not _names(out / folder):
            (out / folder).rmdir()
    for name in (FILES, journal.JOURNAL):
        remove(out / name)


def free_space(out: Path) -> int:
    """Give the bytes that our user may still write on the target's file system."""
    nearest = out.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    found = os.statvfs(str(nearest))
    return found.f_bavail * found.f_frsize


def sweep(out: Path, folders: Iterable[str]) -> None:
    """Remove unfinished files that a killed run left."""
    for folder in folders:
        for name in _names(out / folder):
            if name.startswith(".") and name.endswith(PARTIAL):
                remove(out / folder / name)
