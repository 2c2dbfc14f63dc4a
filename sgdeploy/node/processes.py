"""Processes as /proc shows them: who lives, since when, under which name; and signals to exactly the one that is meant.

A pid alone proves nothing, since the kernel gives it away again. Pid and start time together name one process until
the next boot, which has an id of its own.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from .errors import OpError, os_fault
from .files import KIB, slurp, word


class Stat:
    """What /proc/PID/stat says; ``start`` is in clock ticks since the boot of the machine (field 22)."""

    __slots__ = ("name", "pgid", "pid", "ppid", "sid", "start", "state")

    def __init__(self, pid: int, name: str, fields: list[bytes]) -> None:
        """Take the fields that follow the name (from field 3 on)."""
        self.pid = pid
        self.name = name
        self.state = fields[0].decode()
        self.ppid, self.pgid, self.sid = (int(field) for field in fields[1:4])
        self.start = int(fields[19])


def read_stat(pid: int) -> Stat | None:
    """Read one process; None when there is none. A zombie counts as none, unless threads of it go on running."""
    data = slurp(f"/proc/{pid}/stat", 4 * KIB)
    if not data:
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses: only the last one ends it.
    head, _, tail = data.rpartition(b")")
    found = Stat(pid, head.partition(b"(")[2].decode("utf-8", "replace"), tail.split())
    return None if found.state in "ZXx" and not threads_left(pid) else found


def threads_left(pid: int) -> bool:
    """Whether a process whose main thread has ended still runs others."""
    try:
        with os.scandir(f"/proc/{pid}/task") as tasks:
            return sum(1 for _ in tasks) > 1
    except OSError:
        return False


def snapshot() -> dict[int, Stat]:
    """Read all living processes that we can see."""
    with os.scandir("/proc") as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    table = {found.pid: found for found in map(read_stat, pids) if found is not None}
    if os.getpid() not in table:
        raise OpError("no-proc", "/proc does not show processes, so nothing can be proven", "mount /proc")
    return table


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Give the id of this boot of the machine."""
    return word("/proc/sys/kernel/random/boot_id") or ""


def lives(pid: int | None, start: int | None) -> bool:
    """Whether exactly this process lives: the pid alone may be somebody else's by now."""
    found = None if pid is None else read_stat(pid)
    return found is not None and found.start == start


def title(pid: int, limit: int = 120) -> str:
    """Give the command line for people; values behind flags that smell of secrets are left out."""
    words = [w.decode("utf-8", "replace") for w in (slurp(f"/proc/{pid}/cmdline", 8 * KIB) or b"").split(b"\0") if w]
    hide = False
    shown: list[str] = []
    for item in words:
        flag, _, value = item.partition("=")
        secret = item.startswith("-") and re.search("key|token|secret|password", flag, re.IGNORECASE) is not None
        shown.append("***" if hide else flag + "=***" if secret and value else item)
        hide = secret and not value
    return " ".join(shown)[:limit] or (word(f"/proc/{pid}/comm") or "?")


def clean_environment() -> dict[str, str]:
    """Give the environment of processes that we start: our own without sgdeploy's variables."""
    return {key: value for key, value in os.environ.items() if not key.startswith("SGDEPLOY_")}


def send_signal(found: Stat, number: int) -> bool:
    """Signal one process after a last look at its start time; False when it was gone."""
    if not lives(found.pid, found.start):
        return False
    try:
        os.kill(found.pid, number)
    except ProcessLookupError:
        return False
    except OSError as error:
        raise os_fault(error, f"process {found.pid} ({found.name})", "signal") from error
    return True


def variable_of(pid: int, name: str) -> bytes:
    """Give a variable in the environment of a process as /proc shows it, b"" where there is none."""
    head = name.encode() + b"="
    for entry in (slurp(f"/proc/{pid}/environ") or b"").split(b"\0"):
        if entry.startswith(head):
            return entry[len(head) :]
    return b""


def do_nothing(*_: object) -> None:
    """Handle a signal by nothing: unlike "ignore", this is not inherited by programs that we start."""
