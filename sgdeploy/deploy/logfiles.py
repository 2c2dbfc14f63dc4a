"""Logs in files on this machine: found, and read at both ends, so that a file of any size takes little memory."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from sgdeploy.diagnose.model import ProcessLog
from sgdeploy.errors import UsageError
from sgdeploy.paths import is_folder
from sgdeploy.words import name_list

BEGIN = 512 * 1024
"""Bytes that are read at the begin of a log: arguments and load."""

END = 1536 * 1024
"""Bytes that are read at its end."""

LINE = 64 * 1024
"""A line is cut there: one of 1 GiB takes no more memory than this."""

MOST = 1024
"""So many logs are read; a deployment of 256 ranks has as many and some."""

_CHUNK = 1024 * 1024
_RARE = 100
"""So many NUL bytes, and one in so many, are more than an accident leaves in a log."""
_NAME_LOGS = "give logs, or folders of logs"
_ENDINGS = {".log", ".txt", ".out", ".err"}
_KERNEL = ("kernel", "dmesg", "messages", "syslog", "journal")


def logs_in(words: Iterable[str]) -> list[ProcessLog]:
    """Read logs from files, and from all logs of folders.

    Raises:
        UsageError: one cannot be read, a folder holds none, or there are too many.
    """
    found = [(path, root) for word in words for path, root in _files(Path(word))]
    if len(found) > MOST:
        raise UsageError(f"{len(found)} logs are more than the {MOST} that are read at once", hint="name fewer of them")
    names = _names(found)
    logs = [_log(path, names[path]) for path in dict(found)]
    if logs and not any(text for log in logs for _, text in log.lines):
        named = name_list([log.path for log in logs])
        raise UsageError(f"nothing is written in {named}", hint="wait for the first lines, or name other logs")
    return logs


def _files(path: Path) -> Iterator[tuple[Path, Path]]:
    if not is_folder(path):
        yield path, path.parent
        return
    there = [each for each in sorted(path.rglob("*")) if each.suffix in _ENDINGS and each.is_file()]
    if not there:
        raise UsageError(f"{path} holds no log", hint=f"files that end in {', '.join(sorted(_ENDINGS))} are read")
    yield from ((each, path) for each in there)


def _names(found: Iterable[tuple[Path, Path]]) -> dict[Path, str]:
    """Name each log as short as tells it from the others: ``n0``, else ``first/n0``, else its path."""
    pairs = dict(found)
    for names in (
        {path: path.stem for path in pairs},
        {path: path.relative_to(root).with_suffix("").as_posix() for path, root in pairs.items()},
    ):
        if len(set(names.values())) == len(names):
            return names
    return {path: str(path) for path in pairs}


def _log(path: Path, name: str) -> ProcessLog:
    role = "kernel" if path.stem.lower().startswith(_KERNEL) else ""
    return ProcessLog(name, _lines(path), path=str(path), role=role)


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is no file", hint=_NAME_LOGS)
        with path.open("rb", buffering=0) as stream:
            if _is_binary(stream.read(LINE)):
                raise UsageError(f"{path} is no log: it holds NUL bytes, as programs and weights do", hint=_NAME_LOGS)
            stream.seek(0)
            return list(_ends(stream, path.stat().st_size))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def _is_binary(begin: bytes) -> bool:
    """Tell by its first bytes what nobody wrote as lines; a log that was cut may begin with a hole of NUL bytes."""
    text = begin.lstrip(b"\0")
    count = text.count(b"\0")
    return count > _RARE and count * _RARE > len(text)


def _ends(stream: BinaryIO, size: int) -> Iterator[tuple[int, str]]:
    if size <= BEGIN + END:
        yield from _numbered(_read(stream, size), 1)
        return
    begin = _read(stream, BEGIN)
    yield from _numbered(begin, 1)
    number = 1 + begin.count(b"\n")
    left = size - BEGIN - END
    while left > 0 and (part := stream.read(min(_CHUNK, left))):
        number += part.count(b"\n")
        left -= len(part)
    end = _read(stream, END)
    _, newline, rest = end.partition(b"\n")  # the first one has begun in what was left out
    yield from _numbered(rest if newline else end, number + len(newline))


def _read(stream: BinaryIO, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := stream.read(size - len(data))):
        data += part
    return data


def _numbered(data: bytes, first: int) -> Iterator[tuple[int, str]]:
    lines = data.removesuffix(b"\n").split(b"\n")
    return ((first + index, line[:LINE].decode("utf-8", "replace")) for index, line in enumerate(lines))
