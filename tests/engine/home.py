"""Where `./dev engine` puts the real engine, and why it cannot be used here."""

from __future__ import annotations

import ctypes
import platform
import re
from pathlib import Path

from tests.kit.hosts import CHECKOUT, missing

HOME = CHECKOUT / ".engine"
PYTHON = HOME / "bin" / "python"
MODEL = HOME / "models" / "tiny"
STAMP = HOME / ".sgdeploy-stamp"
"""Written once everything in it is in place."""

RANKS = 5
"""As many run at once: two prefills, a decode of two, and a single server that they are compared with."""

MEMORY = 10 << 20
"""KiB: ranks of 1.6 GB each, and the page cache of 2.6 GB of packages."""

IBVERBS = "libibverbs.so.1"
"""Mooncake is linked against it."""


def why_not() -> str:
    """Say why no rank of the real engine can be started here, or ""."""
    if platform.machine() != "x86_64":
        return f"the real engine's pinned versions run on x86-64, and this is {platform.machine()}"
    if not STAMP.is_file():
        return "the real engine is not installed; ./dev engine does that"
    free = _free_memory()
    if free < MEMORY:
        return f"{RANKS} ranks of the real engine want {MEMORY >> 20} GiB of memory, and {free >> 10} MiB are free"
    if not _loads(IBVERBS):
        return f"not installed: {IBVERBS} (package libibverbs1, on openEuler libibverbs)"
    return missing()


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _free_memory() -> int:
    found = re.search(r"^MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) if found else 0
