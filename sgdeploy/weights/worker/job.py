"""A split as data: what to write, where, and how. It can be written down as JSON and read again elsewhere."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

HEAD = "sgdeploy-split.json"
"""Name of a manifest's head, in each folder that a runtime loads from; written last of all."""

FILES = "sgdeploy-split-files.json"
"""Name of a manifest's list of files, in the target alone."""

PARTIAL = ".partial"
"""What an unfinished file is called: its name with a dot before and this behind, which no loader takes for a file."""


class RefusedError(Exception):
    """The split cannot go on; whoever hears of it finds the words.

    Attributes:
        code: stable short name.
        details: paths, names and numbers, as plain JSON values.
    """

    def __init__(self, code: str, **details: Any) -> None:
        """Keep the evidence."""
        super().__init__(code)
        self.code = code
        self.details = details


class StoppedError(Exception):
    """Somebody wishes the work to stop; the file at hand is incomplete."""


class File:
    """A file to be made.

    Attributes:
        path: below the target.
        size: bytes, header included.
        twin: path of an earlier file with the same bytes, None for none.
        header: gives what it begins with.
        pieces: gives what follows: (shard, offset, rows, take, stride, pad), as ``cut.model.Piece`` explains.
    """

    def __init__(
        self,
        path: str,
        size: int,
        twin: str | None,
        header: Callable[[], bytes],
        pieces: Callable[[], Iterable[Sequence[int]]],
    ) -> None:
        """Describe it."""
        self.path = path
        self.size = size
        self.twin = twin
        self.header = header
        self.pieces = pieces


class Job:
    """Everything that a worker needs to know.

    Attributes:
        model: folder of the checkpoint.
        out: folder that is written.
        shards: names of the checkpoint's files.
        files: to be made, in order.
        zeros: (name, shard, offset, size) of tensors that must hold nothing but zeros.
        others: names of files that go along, beside the weights of each folder.
        folders: folder below the target → every path of weights that any run of the same plan may write there.
        rank_files: folder → {name, count, size} of what every rank loads from it, for the manifest's heads.
        needs: rank → paths of its files, all ranks of the plan.
        head: of the manifest, without what is known only at the end.
        workers: files at the same time.
        hashed: whether each file's SHA-256 is computed on the way.
        synced: whether each file is forced to the disk before it gets its name.
        replicas: link, symlink, reflink or copy.
        start_over: whether to remove first what an earlier run wrote.
    """

    def __init__(self, files: Sequence[File], **fields: Any) -> None:
        """Take the fields as they are."""
        self.files = files
        self.model = Path(fields["model"])
        self.out = Path(fields["out"])
        self.shards: Sequence[str] = fields["shards"]
        self.zeros: Sequence[tuple[str, int, int, int]] = fields["zeros"]
        self.others: Sequence[str] = fields["others"]
        self.folders: Mapping[str, Sequence[str]] = fields["folders"]
        self.rank_files: Mapping[str, Sequence[Mapping[str, Any]]] = fields["rank_files"]
        self.needs: Mapping[str, Sequence[str]] = fields["needs"]
        self.head: Mapping[str, Any] = fields["head"]
        self.workers: int = fields["workers"]
        self.hashed: bool = fields["hashed"]
        self.synced: bool = fields["synced"]
        self.replicas: str = fields["replicas"]
        self.start_over: bool = fields["start_over"]
        self._fields = fields

    @property
    def plan(self) -> str:
        """Digest of the plan."""
        plan: str = self.head["plan"]
        return plan

    @property
    def planned(self) -> frozenset[str]:
        """Every path that any run of the same plan may write."""
        weights = [path for paths in self.folders.values() for path in paths]
        return frozenset(weights + [below(folder, name) for folder in self.folders for name in self.others])

    def to_json(self) -> dict[str, Any]:
        """Write it down: headers once for all files that share them."""
        headers: dict[bytes, int] = {}
        rows = [
            [file.path, file.size, file.twin, headers.setdefault(file.header(), len(headers)), list(file.pieces())]
            for file in self.files
        ]
        return {**self._fields, "headers": [base64.b64encode(header).decode() for header in headers], "files": rows}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Job:
        """Read what ``to_json`` wrote."""
        headers = [base64.b64decode(text) for text in body["headers"]]
        files = [
            File(path, size, twin, _giver(headers[number]), _giver(pieces))
            for path, size, twin, number, pieces in body["files"]
        ]
        return cls(files, **{key: value for key, value in body.items() if key not in {"headers", "files"}})


def _giver(value: Any) -> Callable[[], Any]:
    return lambda: value


class Progress:
    """How far the work is.

    Attributes:
        files: that are done.
        of_files: in all.
        written: bytes that are done, those of an earlier run included; links count nothing.
        of_bytes: in all.
        rate: bytes per second of this run so far.
        left: seconds until the end at this rate; None before it can be told.
    """

    def __init__(self, files: int, of_files: int, written: int, of_bytes: int, rate: float, left: float | None) -> None:
        """Keep the numbers."""
        self.files = files
        self.of_files = of_files
        self.written = written
        self.of_bytes = of_bytes
        self.rate = rate
        self.left = left

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values, short enough for one line of a log."""
        left = None if self.left is None else round(self.left, 1)
        return {**vars(self), "rate": round(self.rate), "left": left}


class Done:
    """What a run came to.

    Attributes:
        complete: whether all that was wanted is there; else it was stopped.
        files: that are there now.
        of_files: that were wanted.
        found: that an earlier run had finished.
        stale: that an earlier run had made from other files of the checkpoint, so that they were made again.
        size: bytes of the files that were wanted; links count nothing.
        folders: below the target, that a runtime can load from.
    """

    def __init__(self, progress: Progress, found: int, folders: Sequence[str], stale: int = 0) -> None:
        """Take what the last report of progress says."""
        self.complete = progress.files == progress.of_files
        self.files = progress.files
        self.of_files = progress.of_files
        self.found = found
        self.stale = stale
        self.size = progress.of_bytes
        self.folders = tuple(folders)

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        return dict(vars(self))


def below(folder: str, name: str) -> str:
    """Give the path of a name in a folder below the target."""
    return folder + "/" + name if folder else name


def counted(numbers: Iterable[int]) -> str:
    """Write numbers as ``0-3,8``; "" for none."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(_span(first, last) for first, last in spans)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def parents(paths: Iterable[str]) -> Iterator[str]:
    """Give the folders of paths, each once, in order."""
    return iter(dict.fromkeys(path.rpartition("/")[0] for path in paths))
