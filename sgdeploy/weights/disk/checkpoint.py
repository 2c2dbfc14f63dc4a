"""Understanding what was read of a checkpoint, here or on a node: configuration, index, headers, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.header import header_length, index_problems, read_header
from sgdeploy.weights.cut.model import Checkpoint, Shard, Tensor
from sgdeploy.weights.worker import headers
from sgdeploy.weights.worker.job import HEAD

_AGAIN = "copy it again"


@dataclass(frozen=True)
class _Found:
    """One shard as it was understood."""

    shard: Shard
    tensors: list[Tensor]


def read_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[Problem]]:
    """Read a checkpoint of this machine; None where it is not whole, with every problem of every file."""
    return understand(headers.read(folder), str(folder))


def understand(answer: Mapping[str, Any], folder: str) -> tuple[Checkpoint | None, list[Problem]]:
    """Understand what ``worker.headers`` has read; None where it is not whole, with every problem of every file."""
    if answer["folder"] != "there":
        what = "does not exist" if answer["folder"] == "missing" else "is no folder"
        return None, [Problem(f"the model folder {folder} {what}", "name the folder of the checkpoint", code="model")]
    if [HEAD, True] in answer["others"]:
        message = f"{folder} holds a split already (it has {HEAD})"
        return None, [Problem(message, "name the folder of the checkpoint that it was made from", code="model")]
    problems: list[Problem] = []
    config = _mapping(answer["config"], headers.CONFIG, folder, problems)
    weight_map = _weight_map(answer["index"], folder, problems)
    if not answer["shards"]:
        problems.append(Problem(f"there is no {headers.SUFFIX} file in {folder}", "other formats are not read"))
    tensors: dict[str, Tensor] = {}
    shards: list[Shard] = []
    for said in answer["shards"]:
        found = _shard(said, len(shards), problems, in_index=bool(weight_map))
        if found is not None:
            shards.append(found.shard)
            _add(tensors, found, shards, problems)
    if weight_map and not problems:
        files = {name: shards[tensor.shard].name for name, tensor in tensors.items()}
        problems += index_problems(weight_map, files)
    if problems or config is None:
        return None, problems
    others = tuple((name, is_file) for name, is_file in answer["others"])
    return Checkpoint(tuple(shards), tensors, config, others), []


def _mapping(said: Mapping[str, Any], name: str, folder: str, problems: list[Problem]) -> Mapping[str, Any] | None:
    """Understand a JSON file that holds a mapping."""
    if said.get("missing"):
        problems.append(Problem(f"there is no {name} in {folder}", _AGAIN, code="model"))
        return None
    reason = said.get("error")
    try:
        value = None if reason else json.loads(said["text"].encode("latin-1"))
    except (ValueError, RecursionError) as error:
        value, reason = None, str(error)
    if reason:
        problems.append(Problem(f"{folder}/{name} cannot be read: {reason}", _AGAIN, code="model"))
        return None
    if not isinstance(value, dict):
        problems.append(Problem(f"{folder}/{name} holds no mapping", _AGAIN, code="model"))
        return None
    return value


def _weight_map(said: Mapping[str, Any] | None, folder: str, problems: list[Problem]) -> dict[str, str]:
    """Understand tensor → file of the index; empty where there is none."""
    if said is None:
        return {}
    index = _mapping(said, headers.INDEX, folder, problems)
    found = index.get("weight_map") if index is not None else None
    if not isinstance(found, dict) or not all(isinstance(name, str) and "/" not in name for name in found.values()):
        if index is not None:
            message = f"{folder}/{headers.INDEX} has no weight_map of file names"
            problems.append(Problem(message, _AGAIN, code="index"))
        return {}
    return found


def _shard(said: Mapping[str, Any], number: int, problems: list[Problem], *, in_index: bool) -> _Found | None:
    """Understand the header of one shard."""
    name = said["name"]
    if "error" in said:
        reason = "file missing" if said["missing"] else f"cannot be read: {said['error']}"
        problems.append(Problem(f"{'index names ' if in_index else ''}{name}: {reason}", _AGAIN, code="shard"))
        return None
    length = header_length(said["start"].encode("latin-1"), said["size"])
    if isinstance(length, str):
        problems.append(Problem(f"{name} {length}", _AGAIN, code="shard"))
        return None
    tensors, wrong = read_header(said["text"].encode("latin-1"), number, said["size"])
    problems += [Problem(f"{name} {reason}", _AGAIN, code="shard") for reason in wrong]
    return None if wrong else _Found(Shard(name, said["size"], said["digest"]), tensors)


def _add(tensors: dict[str, Tensor], found: _Found, shards: list[Shard], problems: list[Problem]) -> None:
    """Take the tensors of a shard in; one that is there already is told once per pair of files."""
    twice = [tensor.name for tensor in found.tensors if tensor.name in tensors]
    if twice:
        other = shards[tensors[twice[0]].shard].name
        message = f"{twice[0]} is in {other} and in {found.shard.name} ({len(twice)} such tensors)"
        problems.append(Problem(message, "move one of the two files out of the folder", code="shard"))
    for tensor in found.tensors:
        tensors.setdefault(tensor.name, tensor)
