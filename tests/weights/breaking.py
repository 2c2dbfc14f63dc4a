"""Ways in which a checkpoint can be broken."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any


def header(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header of a shard, and nothing of its bytes."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    entries = json.loads(raw[8 : 8 + length])
    change(entries)
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])


def without(model: Path, *names: str) -> None:
    """Take tensors out of their shards and out of the index."""
    index = model / "model.safetensors.index.json"
    body = json.loads(index.read_text())
    shards = {body["weight_map"].pop(name) for name in names}
    index.write_text(json.dumps(body))
    for shard in shards:
        header(model / shard, lambda entries: [entries.pop(name, None) for name in names])


def renamed(model: Path, name: str, new: str) -> None:
    """Give a tensor another name."""
    index = model / "model.safetensors.index.json"
    body = json.loads(index.read_text())
    shard = body["weight_map"][new] = body["weight_map"].pop(name)
    index.write_text(json.dumps(body))
    header(model / shard, lambda entries: entries.update({new: entries.pop(name)}))


def shorten(model: Path) -> None:
    """Cut a shard short, as a broken download does."""
    shard = model / "model-00002-of-00003.safetensors"
    os.truncate(shard, shard.stat().st_size - 1000)


def pointer(model: Path) -> None:
    (model / "model-00001-of-00003.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    )


def swapped(model: Path) -> None:
    """Exchange two shards, so that the index is wrong."""
    one, two = model / "model-00001-of-00003.safetensors", model / "model-00002-of-00003.safetensors"
    one.rename(model / "t")
    two.rename(one)
    (model / "t").rename(two)


def config(model: Path, **values: object) -> None:
    """Change config.json."""
    path = model / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def piped(path: Path) -> None:
    """Put a pipe where a file was."""
    path.unlink()
    os.mkfifo(path)
