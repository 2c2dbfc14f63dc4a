"""What a checkpoint says of itself, read without its weights and understood elsewhere (``disk.checkpoint``)."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import stat
import struct
import zlib
from pathlib import Path
from typing import Any

from .job import PARTIAL

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"

LENGTH = 8
"""Bytes of the length before a safetensors header."""

LONGEST = 100_000_000
"""What readers of the format accept as a header."""

_START = 64
_PART = 700_000
"""Characters of one file of a written answer: below what a node's helper reads of a file (1 MiB)."""

PARTS = tuple(f"headers-{number:02d}.txt" for number in range(32))
"""Names of these files. DeepSeek V3, with 92 thousand tensors, fills three."""


def read(folder: Path) -> dict[str, Any]:
    """Read everything but weights.

    Returns:
        ``folder`` (``there``, ``missing`` or ``no-folder``), ``config`` and ``index`` ({text} or {error}; None for no
        index), ``shards`` ([{name, size, start, text, digest} or {name, error}]; texts as Latin-1, so that they are
        bytes again in any case), ``others`` ([name, whether it is a file]).
    """
    try:
        if not folder.is_dir():
            return {"folder": "no-folder" if folder.exists() else "missing"}
    except OSError:  # a name that is too long for any folder
        return {"folder": "missing"}
    index = _text(folder / INDEX) if (folder / INDEX).exists() else None
    names = _named(index) or sorted(path.name for path in folder.iterdir() if path.name.endswith(SUFFIX))
    known = {CONFIG, INDEX, *names}
    return {
        "folder": "there",
        "config": _text(folder / CONFIG),
        "index": index,
        "shards": [shard(folder, name) for name in names],
        "others": sorted([path.name, path.is_file()] for path in folder.iterdir() if path.name not in known),
    }


def _refuse_unreadable(path: Path) -> None:
    """Refuse what is no file of its own right: a pipe would be waited for until somebody writes into it."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def _text(path: Path) -> dict[str, Any]:
    try:
        _refuse_unreadable(path)
        return {"text": path.read_bytes().decode("latin-1")}
    except OSError as error:
        return {"error": error.strerror, "missing": isinstance(error, FileNotFoundError)}


def _named(index: dict[str, Any] | None) -> list[str]:
    """Name the files that an index lists; whatever is wrong with it is told by whoever understands it."""
    try:
        return sorted(set(json.loads((index or {})["text"])["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def shard(folder: Path, name: str) -> dict[str, Any]:
    """Read the header of one file, as ``read`` tells it."""
    try:
        _refuse_unreadable(folder / name)
        with (folder / name).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            start = file.read(_START)
            found = {"name": name, "size": size, "start": start.decode("latin-1")}
            length = struct.unpack("<Q", start[:LENGTH])[0] if len(start) >= LENGTH else size
            if length > min(LONGEST, size - LENGTH):
                return found
            file.seek(LENGTH)
            text = file.read(length)
    except OSError as error:
        return {"name": name, "error": error.strerror, "missing": isinstance(error, FileNotFoundError)}
    digest = hashlib.sha256(start[:LENGTH] + text).hexdigest()
    return {**found, "text": text.decode("latin-1"), "digest": digest}


def write(answer: dict[str, Any], folder: Path) -> int:
    """Write an answer down in parts that are small enough to be fetched; gives their number."""
    packed = base64.b64encode(zlib.compress(json.dumps(answer).encode())).decode()
    parts = [packed[first : first + _PART] for first in range(0, len(packed), _PART)]
    if len(parts) > len(PARTS):
        raise ValueError(f"the headers take {len(parts)} parts, more than {len(PARTS)}")
    for number, part in enumerate(parts):
        name = PARTS[number]
        partial = folder / (name + PARTIAL)
        partial.write_text(part, encoding="ascii")
        partial.rename(folder / name)
    return len(parts)


def join(parts: list[str]) -> dict[str, Any]:
    """Read what ``write`` wrote."""
    answer: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode("".join(parts))))
    return answer
