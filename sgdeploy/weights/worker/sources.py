"""Are the checkpoint's files still those that the plan was made from, and those that finished files were made from?"""

from __future__ import annotations

import hashlib
import json
import os

from . import headers
from .job import Job, RefusedError


def check(job: Job) -> None:
    """Read the headers again: between planning and writing, somebody may have put other files there.

    Raises:
        RefusedError: with the first file whose size or header is another (``changed``).
    """
    for source in job.head["sources"]:
        found = headers.shard(job.model, source["name"])
        if (found.get("size"), found.get("digest")) != (source["size"], source["header"]):
            raise RefusedError("changed", shard=source["name"])


def stamp(job: Job) -> str:
    """Sum up which files the checkpoint consists of: name, size, time of the last change and inode of each.

    A file that takes another's place, with the same size and header, has another stamp.

    Raises:
        OSError: one is not there.
    """
    rows = [[name, *_identity((job.model / name).stat())] for name in job.shards]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ino
