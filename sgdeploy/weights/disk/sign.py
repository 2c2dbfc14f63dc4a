"""The last steps of a split: files beside the weights, the list of files, and the head that makes it valid."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from sgdeploy import __version__
from sgdeploy.weights.cut.manifest import FILES, HEAD, Entry, Head, Source, list_digest, write_files, write_head
from sgdeploy.weights.cut.targets import complete_ranks
from sgdeploy.weights.disk.journal import Journal
from sgdeploy.weights.disk.request import Prepared
from sgdeploy.weights.disk.target import PARTIAL
from sgdeploy.words import number_list

_CHUNK = 4 * 1024 * 1024


def below(folder: str, name: str) -> str:
    """Give the path of a name in a folder below the target."""
    return f"{folder}/{name}" if folder else name


def unsign(out: Path, folders: Iterable[str]) -> None:
    """Take the heads away: while files are written, the split is not valid."""
    for folder in {"", *folders}:
        (out / folder / HEAD).unlink(missing_ok=True)
    (out / FILES).unlink(missing_ok=True)


def copy_others(prepared: Prepared, out: Path, folders: Collection[str], log: Journal) -> None:
    """Put what goes along beside the weights of each folder."""
    for folder in folders:
        for name in prepared.report.copied:
            path = below(folder, name)
            final = out / path
            partial = final.with_name(f".{name}{PARTIAL}")
            digest, size = hashlib.sha256(), 0
            with (prepared.request.model / name).open("rb") as source, partial.open("wb") as copy:
                while chunk := source.read(_CHUNK):
                    digest.update(chunk)
                    size += copy.write(chunk)
            partial.replace(final)
            log.record(path, Entry(size=size, sha256=digest.hexdigest()))


def sign(
    prepared: Prepared, out: Path, folders: Sequence[str], entries: Mapping[str, Entry], arguments: tuple[str, ...]
) -> None:
    """Write the list of files, then the heads; the target's own comes last."""
    listed = write_files(entries)
    _write(out / FILES, listed)
    sizes = prepared.request.wish.sizes
    head = Head(
        tool=f"sgdeploy {__version__}",
        plan=prepared.plan.digest,
        **prepared.plan.facts,
        ranks=number_list(complete_ranks(prepared.plan, sizes, entries.keys())),
        arguments=arguments,
        sources=tuple(Source(name=s.name, size=s.size, header=s.header) for s in prepared.checkpoint.shards),
        files=len(entries),
        size=sum(entry.size for entry in entries.values()),
        digest=list_digest(listed),
    )
    for folder in [each for each in folders if each] + [""]:
        _write(out / folder / HEAD, write_head(head.model_copy(update={"folder": folder})))


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}{PARTIAL}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
