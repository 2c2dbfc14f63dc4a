"""What the kernel says of namespaces: who lives in one, and entering one with a thread."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = ("net", "pid", "mnt", "uts", "ipc")
NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Proc:
    """A process: its pid on this machine, its pid inside its own namespace, its parent, and its command line."""

    pid: int
    inner_pid: int
    parent: int
    argv: tuple[str, ...]


def identity(pid: int | str, kind: str) -> str:
    """Give the namespace that a process lives in (``net:[4026531840]``), or "" when the process is gone."""
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return ""


def identities(pid: int) -> frozenset[str]:
    """Give the namespaces of a process that are not ours."""
    return frozenset(identity(pid, kind) for kind in KINDS) - frozenset(identity("self", kind) for kind in KINDS) - {""}


def pids() -> list[int]:
    """List all processes that we can see."""
    return sorted(int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())


def inhabitants(namespaces: frozenset[str]) -> list[Proc]:
    """List the processes that live in any of these namespaces."""
    found = [pid for pid in pids() if any(identity(pid, kind) in namespaces for kind in KINDS)]
    return [proc for pid in found if (proc := process(pid)) is not None]


def process(pid: int) -> Proc | None:
    """Describe a process; None if it is gone or only waits to be reaped."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return None
    fields = dict(line.partition(":")[::2] for line in status.splitlines())
    if fields.get("State", "Z").strip().startswith(("Z", "X")):
        return None
    argv = tuple(os.fsdecode(word) for word in command.rstrip(b"\0").split(b"\0"))
    return Proc(pid, int(fields["NSpid"].split()[-1]), int(fields["PPid"]), argv)


def lineage(pid: int) -> list[Proc]:
    """Give a process and its ancestors, as far as they live."""
    line: list[Proc] = []
    while (proc := process(pid)) is not None:
        line.append(proc)
        pid = proc.parent
    return line


@contextlib.contextmanager
def entered(pid: int) -> Iterator[None]:
    """Move this thread into the network of a process, and back again at the end.

    Sockets that the thread opens, and processes and threads that it starts, are in that network; everything that was
    open before, and all other threads, stay where they are.
    """
    back = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            _set(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _set(back)
    finally:
        os.close(back)


def _set(descriptor: int) -> None:
    if LIBC.setns(descriptor, NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
