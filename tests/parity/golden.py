"""Captured processes of the reference, and how a planned process is compared with one.

A golden file packs one run: words of argv and variables that all processes share, and what differs per process.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgdeploy.plan.model import Process

DATA = Path(__file__).resolve().parent.parent / "golden"
FILES = {file.stem: file for folder in ("native", "split") for file in sorted((DATA / folder).glob("*.json"))}
"""Every captured run by its name."""

ALIASES = {"--model": "--model-path", "--dp": "--dp-size", "--tp": "--tp-size"}

LAUNCHER_ONLY = frozenset(
    {
        "CONDA_ACTIVATE_CMD",
        "CONDA_ENV_PATH",
        "NODE_IPS_LIST",
        "LOG_DATE",
        "LOG_TIME",
        "LOG_DIR",
        "SGLANG_TORCH_PROFILER_DIR",
        "DROP_CACHES",
        "ROUTER_IP",
        "PYINSTALL_PATH",
        "LOAD_FORMAT",
        "CHUNKED_PREFILL_SIZE",
        "SDMA_KO_PATH",
    }
)
"""Variables of the launcher itself; no part of what an engine process needs."""

FRONT = frozenset({"router", "tokenizer"})
MEANINGLESS_IN_FRONT = frozenset(
    {
        *("TP_SIZE", "DP_SIZE", "EP_SIZE", "PP_SIZE", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "IS_PREFILL"),
        *("SGLANG_KUNPENG_MAX_CUR_LEN", "SGLANG_KUNPENG_MAX_SEQ_NUM"),
    }
)
"""Variables that the scripts happen to export to the router and to tokenizers, which hold no rank."""

SEARCH_PATHS = frozenset({"LD_LIBRARY_PATH", "CPATH", "INCLUDE", "LIBRARY_PATH"})


@dataclass(frozen=True)
class Captured:
    """One process of the reference."""

    node: str
    node_rank: int | None
    rank_in_node: int | None
    cpu: str | None
    argv: list[str]
    env: dict[str, str]
    hugepages: list[tuple[str, int]]
    conda_env: str
    hpckit_setvars: bool

    @property
    def role(self) -> str:
        """What it does, as its command line says."""
        if "sglang_router.launch_router" in self.argv:
            return "router"
        if self.env.get("LD_PRELOAD"):
            return "tokenizer"
        mode = "--disaggregation-mode"
        return self.argv[self.argv.index(mode) + 1] if mode in self.argv else "native"

    @property
    def port(self) -> int:
        """Its HTTP port; the router's is its own default where it is not said."""
        return int(self.argv[self.argv.index("--port") + 1]) if "--port" in self.argv else 30000


def load(name: str) -> list[Captured]:
    """Unpack a golden file; a run that started nothing has no processes."""
    data = json.loads(FILES[name].read_text(encoding="utf-8"))
    return [_unpack(data, record) for record in data.get("processes", ())]


def kernel_module(name: str) -> list[str]:
    """Give the command by which the reference loads the kernel module."""
    commands: list[list[str]] = json.loads(FILES[name].read_text(encoding="utf-8"))["kernel_module_argv"]
    return next(words for words in commands if words[0] == "insmod")


def kernel_module_hosts(name: str) -> list[str]:
    """Give the hosts on which the reference loads it."""
    hosts: list[str] = json.loads(FILES[name].read_text(encoding="utf-8"))["kernel_module_nodes"]
    return hosts


def _unpack(data: dict[str, Any], record: dict[str, Any]) -> Captured:
    argv = record.get("argv") or [record["argv_set"].get(str(i), word) for i, word in enumerate(data["argv_base"])]
    env = {k: v for k, v in data["env_base"].items() if k not in record.get("env_unset", ())}
    pages = data["hugepage_table"][record["hp"]] if "hp" in record else ()
    return Captured(
        node=record["node"],
        node_rank=record["node_rank"],
        rank_in_node=record["rank_in_node"],
        cpu=record["cpu"],
        argv=argv,
        env={**env, **record.get("env_set", {})},
        hugepages=[(path, value) for path, value in pages],
        conda_env=data["common"]["conda_env"],
        hpckit_setvars=data["common"]["hpckit_setvars"],
    )


def executable_and_flags(argv: list[str]) -> tuple[tuple[str, ...], Counter[tuple[str, ...]]]:
    """Part a command line into its program and a multiset of (flag, values…), aliases brought together."""
    words = iter(argv)
    program: list[str] = []
    groups: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            groups.append([ALIASES.get(word, word)])
        elif groups:
            groups[-1].append(word)
        else:
            program.append(word)
    return tuple(program), Counter(tuple(group) for group in groups)


def differences(planned: Process, captured: Captured) -> list[str]:
    """Say in words where a planned process departs from the captured one."""
    found: list[str] = []
    mine, theirs = executable_and_flags(list(planned.argv)), executable_and_flags(captured.argv)
    if mine[0] != theirs[0]:
        found.append(f"program {mine[0]} instead of {theirs[0]}")
    found += [f"extra {flag}" for flag in (mine[1] - theirs[1]).elements()]
    found += [f"missing {flag}" for flag in (theirs[1] - mine[1]).elements()]
    cores = None if captured.cpu is None else (int(captured.cpu),)
    if planned.cores != cores:
        found.append(f"cores {planned.cores} instead of {cores}")
    pages = [(write.path, write.value) for write in planned.hugepages]
    if pages != captured.hugepages:
        found.append(f"hugepages {pages} instead of {captured.hugepages}")
    return found + _env_differences(planned, captured) + _activation_differences(planned, captured)


def _env_differences(planned: Process, captured: Captured) -> list[str]:
    found: list[str] = []
    for name, value in captured.env.items():
        if name in LAUNCHER_ONLY or name.startswith("PREFILL_") or (name.startswith("DECODE_") and "SIZE" in name):
            continue
        if planned.role in FRONT and name in MEANINGLESS_IN_FRONT:
            continue
        if name in SEARCH_PATHS:
            wanted: object = tuple(entry for entry in value.split(":") if entry)
            got: object = planned.env_prepend.get(name)
        else:
            wanted, got = value, planned.env.get(name)
        if got != wanted:
            found.append(f"{name} is {got!r} instead of {wanted!r}")
    found += [f"{name} is prepended" for name in planned.env_prepend if name not in captured.env]
    return found


def _activation_differences(planned: Process, captured: Captured) -> list[str]:
    wanted = [f"conda:/opt/conda:{captured.conda_env}"]
    if captured.hpckit_setvars:
        wanted.append("setvars:/opt/HPCKit/setvars.sh")
    return [] if list(planned.activate) == wanted else [f"activation {planned.activate} instead of {wanted}"]
