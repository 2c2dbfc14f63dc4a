"""The engine's own argument line: what a process was told, whatever the profile says."""

from __future__ import annotations

import re
from collections.abc import Mapping

_WANTED = (
    "model_path",
    "dist_init_addr",
    "nnodes",
    "node_rank",
    "tp_size",
    "pp_size",
    "dp_size",
    "host",
    "port",
    "nccl_port",
    "page_size",
    "kv_cache_dtype",
    "context_length",
    "max_total_tokens",
    "mem_fraction_static",
    "chunked_prefill_size",
    "max_running_requests",
    "schedule_conservativeness",
    "disaggregation_mode",
    "disaggregation_bootstrap_port",
    "device",
)
_LINE = re.compile(r"\bserver_args\s*=")
_PAIR = re.compile(rf"""\b({"|".join(_WANTED)})['"]?\s*[:=]\s*('[^']*'|"[^"]*"|[^,)}}\s]+)""")
_POOL = re.compile(r"\bmax_total_num_tokens\s*=\s*(\d+).*\bcontext_len\s*=\s*(\d+)")
_ROUTER = re.compile(r"\b(?:Starting (?:router|server) on) (\S+:\d+)")
_OF_USAGE = re.compile(r"usage: |\s+\[?--?[a-z]")
_USAGE = re.compile(r"\[?(--[a-z][\w-]+)")


def arguments(line: str) -> dict[str, str] | None:
    """Read an argument line (``server_args={…}`` or ``server_args=ServerArgs(…)``); None for any other line."""
    if not _LINE.search(line):
        return None
    pairs = ((match[1], match[2].strip("'\"")) for match in _PAIR.finditer(line))
    found: dict[str, str] = {}
    for name, value in pairs:
        if value != "None":
            found.setdefault(name, value)
    return found or None


def facts(line: str) -> Mapping[str, str]:
    """Read what other lines tell about how a process was set up: the KV pool, the address of a router."""
    if match := _POOL.search(line):
        return {"pool": match[1], "context": match[2]}
    if match := _ROUTER.search(line):
        return {"address": match[1]}
    return {}


def usage_flags(line: str) -> list[str]:
    """Give the flags that a line of a usage text names."""
    return _USAGE.findall(line) if _OF_USAGE.match(line) else []
