"""The head of a safetensors file: eight bytes with its length, then JSON with name, type, shape and offsets."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.model import ITEM_SIZES, Parameter, Tensor
from sgdeploy.weights.worker.headers import LENGTH, LONGEST

_META = "__metadata__"
_LFS = b"version https://git-lfs"


def header_length(start: bytes, size: int) -> int | str:
    """Read the length of a header from the first bytes of a file, or say what is wrong.

    Args:
        start: the file's beginning.
        size: the file's size.
    """
    if start.startswith(_LFS[: len(start)]) and len(start) >= LENGTH:
        return "is a Git LFS pointer, not the weights themselves"
    if len(start) < LENGTH:
        return f"has {size} bytes, too few for a safetensors file"
    (length,) = struct.unpack("<Q", start[:LENGTH])
    if length > LONGEST:
        return f"is no safetensors file: its first bytes would mean a header of {length} bytes"
    if LENGTH + length > size:
        return f"has {size} bytes, its header alone needs {LENGTH + length} (download cut short?)"
    return int(length)


def read_header(text: bytes, shard: int, size: int) -> tuple[list[Tensor], list[str]]:
    """Read a header.

    Args:
        text: the header, without the length before it.
        shard: position of the file.
        size: the file's size.

    Returns:
        its tensors, and what is wrong with it.
    """
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        return [], [f"has a damaged header: {error}"]
    if not isinstance(entries, dict):
        return [], ["has a damaged header: it is no mapping"]
    base = LENGTH + len(text)
    tensors: list[Tensor] = []
    wrong: list[str] = []
    end = 0
    for name, entry in entries.items():
        if name == _META:
            continue
        read = _entry(name, entry, shard, base)
        if isinstance(read, str):
            wrong.append(read)
        else:
            tensors.append(read)
            end = max(end, read.offset + read.size)
    if end > size:
        wrong.append(f"has {size} bytes, header needs {end} (download cut short?)")
    return tensors, wrong or list(_overlaps(tensors))


def _entry(name: str, entry: Any, shard: int, base: int) -> Tensor | str:
    try:
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        first, end = entry["data_offsets"]
        item = ITEM_SIZES.get(dtype)
        if item is None:
            return f"holds {name} of type {dtype}, which is not known here"
        size = prod(shape) * item
        if end - first != size or first < 0 or min(shape, default=0) < 0:
            return f"holds {name} with {end - first} bytes for {dtype} {list(shape)}, which needs {size}"
        return Tensor(name, dtype, shape, shard, base + first, size)
    except (TypeError, KeyError, ValueError):
        return f"has a damaged header: the entry of {name} is none"


def _overlaps(tensors: Sequence[Tensor]) -> Iterator[str]:
    end, before = 0, ""
    for tensor in sorted(tensors, key=lambda tensor: (tensor.offset, tensor.size)):
        if tensor.offset < end:
            yield f"has a damaged header: {tensor.name} overlaps {before}"
        end, before = tensor.offset + tensor.size, tensor.name


def in_order(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Order parameters for a file: by element size, so that each stands at a multiple of its own, then by name."""
    return tuple(sorted(parameters, key=lambda each: (-ITEM_SIZES[each.dtype], each.name)))


def write_header(parameters: Sequence[Parameter]) -> bytes:
    """Write the header of a file that holds these parameters in this order, the length before it included."""
    entries: dict[str, Any] = {_META: {"format": "pt"}}
    offset = 0
    for each in parameters:
        span = [offset, offset + each.size]
        entries[each.name] = {"dtype": each.dtype, "shape": list(each.shape), "data_offsets": span}
        offset += each.size
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH)
    return struct.pack("<Q", len(text)) + text


def index_problems(weight_map: Mapping[str, str], found: Mapping[str, str]) -> Iterator[Problem]:
    """Hold the index of a checkpoint against its shards.

    Args:
        weight_map: tensor → file, as the index says.
        found: tensor → file, as it is.
    """
    hint = "the index does not belong to these shards; copy the checkpoint again"
    missing = [name for name in weight_map if name not in found]
    if missing:
        message = (
            f"index names {missing[0]} in {weight_map[missing[0]]}, which does not hold it ({len(missing)} in all)"
        )
        yield Problem(message, hint, code="index")
    moved = [name for name, file in weight_map.items() if found.get(name, file) != file]
    if moved:
        name = moved[0]
        message = f"index says {name} is in {weight_map[name]}, it is in {found[name]} ({len(moved)} such tensors)"
        yield Problem(message, hint, code="index")
    extra = [name for name in found if name not in weight_map]
    if extra:
        message = f"{found[extra[0]]} holds {extra[0]}, which the index does not name ({len(extra)} in all)"
        yield Problem(message, hint, code="index")
