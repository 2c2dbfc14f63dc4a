"""A split held against its own manifest, on any machine, without the checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sgdeploy.errors import StateError
from sgdeploy.problems import Problem
from sgdeploy.weights.cut.manifest import FILES, HEAD, Entry, Head, read_files, read_head
from sgdeploy.weights.errors import CheckpointError, MismatchError
from sgdeploy.weights.worker.journal import JOURNAL
from sgdeploy.weights.worker.target import rank_files

_CHUNK = 1024 * 1024
_AGAIN = "copy the split again, or remove the folder and split again"


@dataclass(frozen=True)
class Verified:
    """What was found right.

    Attributes:
        head: of the manifest.
        files: that were looked at.
        size: bytes that were read and hashed; what has several names is read once.
        unhashed: files of which the manifest has no hash, so that only their size could be compared.
    """

    head: Head
    files: int
    size: int
    unhashed: int


def verify(
    folder: Path, workers: int, read: Callable[[int, int], None], stopped: Callable[[], bool]
) -> Verified | None:
    """Compare every file with the manifest.

    Args:
        folder: of the split.
        workers: files at the same time.
        read: told how many bytes have been read since it was told last, and how many there are in all.
        stopped: asked between reads whether to stop.

    Returns:
        What was found right; None where it was stopped.

    Raises:
        CheckpointError: there is no split to verify.
        MismatchError: with every file that differs, is missing, or is foreign and would be loaded.
        StateError: the manifest itself is damaged.
    """
    head = _head(folder)
    entries = _entries(folder, head)
    problems = _foreign(folder, entries)
    names, wrong = _look(folder, entries)
    problems += wrong
    firsts = [paths[0] for paths in names.values()]
    size = sum(entries[path].size for path in firsts)
    with ThreadPoolExecutor(workers, thread_name_prefix="verify") as pool:
        digests = list(pool.map(lambda path: _digest(folder / path, lambda count: read(count, size), stopped), firsts))
    if stopped():
        return None
    for paths, digest in zip(names.values(), digests, strict=True):
        differ = [path for path in paths if entries[path].sha256 != digest]
        problems += [_wrong(path, f"sha256 differs from manifest ({digest[:16]}… is not it)") for path in differ]
    if problems:
        raise MismatchError(sorted(problems, key=lambda problem: problem.message))
    unhashed = sum(entry.sha256 is None for entry in entries.values())
    return Verified(head, len(entries), size, unhashed)


def _look(folder: Path, entries: Mapping[str, Entry]) -> tuple[dict[tuple[int, int], list[str]], list[Problem]]:
    """Compare sizes; gives the files that are to be hashed, each with all names that it goes by."""
    names: dict[tuple[int, int], list[str]] = {}
    problems: list[Problem] = []
    for path, entry in entries.items():
        try:
            found = (folder / path).stat()
        except OSError as error:
            problems.append(_gone(path, error))
            continue
        if found.st_size != entry.size:
            problems.append(_wrong(path, f"has {found.st_size} bytes, the manifest says {entry.size}"))
        elif entry.sha256 is not None:
            names.setdefault((found.st_dev, found.st_ino), []).append(path)
    return names, problems


def _head(folder: Path) -> Head:
    try:
        head = read_head((folder / HEAD).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        begun = (folder / JOURNAL).exists()
        why = "a split was begun there and is not finished" if begun else f"there is no {HEAD}"
        hint = "run the same split-weights again" if begun else "name the folder that --out named"
        raise CheckpointError([Problem(f"{folder} holds no split: {why}", hint, code="no-split")]) from error
    except OSError as error:
        why = f"{folder / HEAD} cannot be read: {error.strerror}"
        raise CheckpointError([Problem(why, "name the folder that --out named", code="no-split")]) from error
    except UnicodeDecodeError as error:
        raise StateError(f"{folder / HEAD} is damaged: {error}", hint=_AGAIN) from error
    if isinstance(head, str):
        raise StateError(f"{folder / HEAD} is damaged: {head}", hint=_AGAIN)
    if head.folder:
        hint = f"verify {folder.resolve().parent}"
        raise CheckpointError(
            [Problem(f"{folder} is a part of a split (its folder {head.folder})", hint, code="no-split")]
        )
    return head


def _entries(folder: Path, head: Head) -> dict[str, Entry]:
    path, again = folder / FILES, _AGAIN
    try:
        found = read_files(path.read_text(encoding="utf-8"), head.digest)
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror}", hint=again) from error
    if isinstance(found, str):
        raise StateError(f"{path} does not belong to {HEAD}: {found}", hint=again)
    return found


def _foreign(folder: Path, entries: Mapping[str, Entry]) -> list[Problem]:
    """Find files of ranks that the manifest does not know: a runtime would load them as well."""
    folders = {path.rpartition("/")[0] for path in entries if path.rpartition("/")[2].startswith("model-rank-")}
    extra = sorted(path for path in rank_files(folder, folders) if path not in entries)
    return [_wrong(path, "is not in the manifest and would be loaded as well") for path in extra]


def _gone(path: str, error: OSError) -> Problem:
    if not isinstance(error, FileNotFoundError):
        return _wrong(path, f"is in the manifest and cannot be read: {error.strerror}")
    hint = "run the same split-weights again, or copy the file from where it is"
    return Problem(f"{path} is in the manifest and is not there", hint, code="verify")


def _wrong(path: str, reason: str) -> Problem:
    hint = "remove it and run the same split-weights again, or copy it from where it is right"
    return Problem(f"{path} {reason}", hint, code="verify")


def _digest(path: Path, read: Callable[[int], None], stopped: Callable[[], bool]) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while not stopped() and (chunk := file.read(_CHUNK)):
            digest.update(chunk)
            read(len(chunk))
    return digest.hexdigest()
