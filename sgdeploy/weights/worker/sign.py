"""The last steps of a split: files beside the weights, the list of files, and the head that makes it valid."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from .job import FILES, HEAD, Job, below, counted
from .journal import Entry, Journal
from .lock import remove
from .replicas import partial_of

_CHUNK = 1024 * 1024


def unsign(out: Path, folders: Iterable[str]) -> None:
    """Take the heads away: while files are written, the split is not valid."""
    for folder in {"", *folders}:
        remove(out / folder / HEAD)
    remove(out / FILES)


def copy_others(job: Job, folders: Iterable[str], log: Journal) -> None:
    """Put what goes along beside the weights of each folder."""
    for path, name in [(below(folder, name), name) for folder in folders for name in job.others]:
        final = job.out / path
        partial = partial_of(final)
        digest, size = hashlib.sha256(), 0
        with (job.model / name).open("rb") as source, partial.open("wb") as copy:
            chunk = source.read(_CHUNK)
            while chunk:
                digest.update(chunk)
                size += copy.write(chunk)
                chunk = source.read(_CHUNK)
        partial.rename(final)
        log.record(path, size, digest.hexdigest())


def sign(job: Job, folders: Sequence[str], entries: Mapping[str, Entry]) -> None:
    """Write the list of files, then the heads; the target's own comes last."""
    rows = (f"{json.dumps(path)}: {json.dumps(entries[path])}" for path in sorted(entries))
    listed = "{\n" + ",\n".join(rows) + "\n}\n"
    _write(job.out / FILES, listed)
    head = {
        **job.head,
        "ranks": counted(whole_ranks(job, entries)),
        "files": len(entries),
        "size": sum(entry["size"] for entry in entries.values()),
        "digest": hashlib.sha256(listed.encode()).hexdigest(),
    }
    for folder in [each for each in folders if each] + [""]:
        own = {"folder": folder, "rank_files": job.rank_files.get(folder, [])}
        text = json.dumps({**head, **own}, indent=1) + "\n"
        _write(job.out / folder / HEAD, text)


def whole_ranks(job: Job, there: Collection[str]) -> list[int]:
    """Give the ranks whose files are all there, counted over all stages."""
    return [int(rank) for rank, paths in job.needs.items() if all(path in there for path in paths)]


def _write(path: Path, text: str) -> None:
    partial = partial_of(path)
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)
