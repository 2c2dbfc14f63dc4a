"""Recorded hosts: what a node helper said (``NAME.json``), and the facts that must come out (``NAME.yaml``).

Record another one with the operation ``gather`` of the node helper, asked with ``wanted.gather_request`` of a plan;
take host names, boot ids and passwords out before it is committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sgdeploy.facts.model import HostFacts, HugePool, PathFact
from sgdeploy.facts.parse import parse
from sgdeploy.words import name_list, number_list

FOLDER = Path(__file__).parent / "samples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

_LISTS = {"cpus", "cpus_present", "cpus_online", "cpus_allowed", "mems_allowed", "reserved"}
_NOTHING: tuple[object, ...] = (None, "", (), {}, frozenset())


def sample(name: str, host: str = "n01") -> HostFacts:
    """Give the facts of a recorded host."""
    recorded = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return parse(host, recorded["hello"], recorded["result"])


def short(facts: HostFacts) -> dict[str, Any]:
    """Write facts as the expectations do: number lists in the kernel's form, equal things once, empty ones left out."""
    plain = {key: _short(key, value) for key, value in asdict(facts).items() if value not in _NOTHING}
    plain["huge"] = [_pool(pool) for pool in facts.huge]
    plain["resolved"] = {name: list(addresses) for name, addresses in facts.resolved.items()}
    plain["paths"] = _paths(facts.paths)
    return plain


def _pool(pool: HugePool) -> str:
    where = "host" if pool.node is None else f"node {pool.node}"
    return f"{where}: {pool.size // 1024} kB x {pool.total}, {pool.free} free"


def _short(key: str, value: Any) -> Any:
    if key in _LISTS:
        return number_list(value)
    if isinstance(value, Mapping):
        return {name: _short(str(name), part) for name, part in value.items() if part not in _NOTHING}
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, (list, tuple)) else value


def _paths(paths: Mapping[str, PathFact]) -> dict[str, str]:
    alike: dict[str, list[str]] = {}
    for path, found in paths.items():
        rights = ("r" if found.readable else "-") + ("x" if found.executable else "-")
        words = f"{found.kind} {rights}" if found.exists else f"absent {found.error}".strip()
        alike.setdefault(words, []).append(path)
    return {words: name_list(group) for words, group in alike.items()}
