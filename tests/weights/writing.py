"""Splits really written in a test."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from sgdeploy.weights.cut.planner import Wish
from sgdeploy.weights.cut.sizes import Sizes
from sgdeploy.weights.disk.request import Prepared, Request, prepare
from sgdeploy.weights.disk.split import How, Split
from sgdeploy.weights.worker.job import Done, Progress
from tests.weights.planning import wish

EIGHT = Sizes(tp=8, dp=2, ep=8)
"""Eight ranks, two attention groups, an expert each: what fits the small checkpoint of eight experts."""


def prepared(model: Path, out: Path, wanted: Wish | None = None, **more: Any) -> Prepared:
    """Plan a split into a folder; ``more`` goes into the request."""
    return prepare(Request(model, out, wanted or wish("kunpeng", EIGHT), **more))


def write(model: Path, out: Path, wanted: Wish | None = None, how: How | None = None, **more: Any) -> Done:
    """Plan a split and write it."""
    return Split(prepared(model, out, wanted, **more), out, how or How(2)).run(ignore, never)


def ignore(progress: Progress) -> None:
    """Hear of progress and do nothing."""


def unheard(count: int, size: int) -> None:
    """Hear of bytes that were read and do nothing."""


def never() -> bool:
    """Do not stop."""
    return False


def hashes(folder: Path) -> dict[str, str]:
    """Give the SHA-256 of every file of a folder, hidden ones as well."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
