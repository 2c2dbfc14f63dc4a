"""Reading what is known of a checkpoint without its weights: config.json, the index, and the header of each shard."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.header import LENGTH, header_length, index_problems, read_header
from sgdeploy.weights.cut.model import Checkpoint, Shard, Tensor

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class _Found:
    """One shard as it was read."""

    shard: Shard
    tensors: list[Tensor]


def read_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[Problem]]:
    """Read a checkpoint; None where it is not whole, with every problem of every file."""
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "does not exist"
        return None, [Problem(f"the model folder {folder} {what}", "name the folder of the checkpoint", code="model")]
    problems: list[Problem] = []
    config = _mapping(folder / CONFIG, problems)
    weight_map = _weight_map(folder, problems)
    names = sorted(set(weight_map.values())) if weight_map else _shard_names(folder)
    if not names:
        problems.append(Problem(f"there is no {SUFFIX} file in {folder}", "other formats are not read", code="model"))
    tensors: dict[str, Tensor] = {}
    shards: list[Shard] = []
    for name in names:
        found = _shard(folder, name, len(shards), problems, in_index=bool(weight_map))
        if found is not None:
            shards.append(found.shard)
            _add(tensors, found, shards, problems)
    whole = len(shards) == len(names) and not problems
    if weight_map and whole:
        files = {name: shards[tensor.shard].name for name, tensor in tensors.items()}
        problems += index_problems(weight_map, files)
    if problems or config is None:
        return None, problems
    read = {*names, CONFIG, INDEX}
    others = tuple(sorted(entry.name for entry in folder.iterdir() if entry.name not in read))
    return Checkpoint(tuple(shards), tensors, config, others), []


def _shard_names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(SUFFIX))


def _mapping(path: Path, problems: list[Problem]) -> Mapping[str, Any] | None:
    """Read a JSON file that holds a mapping."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        problems.append(Problem(f"there is no {path.name} in {path.parent}", "copy it again", code="model"))
        return None
    except (OSError, ValueError) as error:
        problems.append(Problem(f"{path} cannot be read: {error}", "copy it again", code="model"))
        return None
    if not isinstance(value, dict):
        problems.append(Problem(f"{path} holds no mapping", "copy it again", code="model"))
        return None
    return value


def _weight_map(folder: Path, problems: list[Problem]) -> dict[str, str]:
    """Read tensor → file from the index; empty where there is none."""
    path = folder / INDEX
    if not path.exists():
        return {}
    index = _mapping(path, problems)
    found = index.get("weight_map") if index is not None else None
    if not isinstance(found, dict) or not all(isinstance(name, str) and "/" not in name for name in found.values()):
        if index is not None:
            problems.append(Problem(f"{path} has no weight_map of file names", "copy it again", code="index"))
        return {}
    return found


def _shard(folder: Path, name: str, number: int, problems: list[Problem], *, in_index: bool) -> _Found | None:
    """Read the header of one shard."""
    says = f"index names {name}" if in_index else name
    again = "copy it again"
    try:
        with (folder / name).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            start = file.read(LENGTH)
            length = (
                header_length(start + file.read(LENGTH), size) if len(start) == LENGTH else header_length(start, size)
            )
            if isinstance(length, str):
                problems.append(Problem(f"{name} {length}", again, code="shard"))
                return None
            file.seek(LENGTH)
            text = file.read(length)
    except FileNotFoundError:
        problems.append(Problem(f"{says}: file missing", again, code="shard-missing"))
        return None
    except OSError as error:
        problems.append(Problem(f"{says}: cannot be read: {error.strerror}", again, code="shard"))
        return None
    tensors, wrong = read_header(text, number, size)
    problems += [Problem(f"{name} {reason}", again, code="shard") for reason in wrong]
    return None if wrong else _Found(Shard(name, size, hashlib.sha256(start + text).hexdigest()), tensors)


def _add(tensors: dict[str, Tensor], found: _Found, shards: list[Shard], problems: list[Problem]) -> None:
    """Take the tensors of a shard in; one that is there already is told once per pair of files."""
    twice = [tensor.name for tensor in found.tensors if tensor.name in tensors]
    if twice:
        other = shards[tensors[twice[0]].shard].name
        message = f"{twice[0]} is in {other} and in {found.shard.name} ({len(twice)} such tensors)"
        problems.append(Problem(message, "move one of the two files out of the folder", code="shard"))
    for tensor in found.tensors:
        tensors.setdefault(tensor.name, tensor)
