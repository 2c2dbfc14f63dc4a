"""Which process of which machine a command is, so that whoever finds its lock can prove that it is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_START = 19
"""Place of the start time among the fields that follow the name in /proc/PID/stat."""


def machine() -> str:
    """Give this boot of this machine, with its name space of pids: a container is another machine; "" unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def start_of(pid: int) -> int | None:
    """Give when a process was started, in clock ticks since the boot; None where there is none (a zombie is none)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[_START])


def is_proven_gone(owner: dict[str, Any]) -> bool:
    """Whether a command that wrote itself into a lock ran on this very machine and is no process of it any more."""
    here = machine()
    same = bool(here) and owner.get("machine") == here and isinstance(owner.get("pid"), int)
    return same and start_of(owner["pid"]) != owner.get("start")
