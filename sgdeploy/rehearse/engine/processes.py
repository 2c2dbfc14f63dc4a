"""What the processes of an engine share: titles, the time that imports take, the line from main to a child."""

from __future__ import annotations

import os
import signal
import time

from .basics import SPEED, read_file

TYPE_CHECKING = False

if TYPE_CHECKING:
    import socket
    from typing import NoReturn

    from .loop import Wire


def retitle(title: str) -> None:
    """Rewrite this process's title as setproctitle does in the engine, environment area and all.

    What ``/proc/PID/environ`` shows is gone afterwards unless ``SPT_NOENV`` is set. A kernel that does not allow
    it leaves the process as it was.
    """
    try:
        comm = os.open("/proc/self/comm", os.O_WRONLY)
        try:
            os.write(comm, title[:15].encode())
        finally:
            os.close(comm)
        fields = read_file("/proc/self/stat").rpartition(")")[2].split()
        arg_start, arg_end, env_start, env_end = (int(field) for field in fields[45:49])  # proc(5), 48 to 51
        memory = os.open("/proc/self/mem", os.O_RDWR)
        try:
            room = arg_end - arg_start
            os.pwrite(memory, title.encode()[: room - 1].ljust(room, b"\0"), arg_start)
            if "SPT_NOENV" not in os.environ:
                os.pwrite(memory, bytes(env_end - env_start), env_start)
        finally:
            os.close(memory)
    except (OSError, ValueError, OverflowError):
        return


def import_everything(main: int) -> bool:
    """Spend the time in which a child of the real engine imports; tell whether main still lives afterwards.

    Only then does a child ask the kernel to be killed when its parent ends. What ended before is not noticed: a
    child of such a main lives on for ever.
    """
    time.sleep(0.1 / SPEED)
    return os.getppid() == main


class Child:
    """A forked process and the line to it."""

    def __init__(self, name: str, pid: int, wire: Wire) -> None:
        """Keep them together."""
        self.name, self.pid, self.wire = name, pid, wire
        self.code: int | None = None
        self.ready = False

    def reap(self) -> int:
        """Wait for its end and give the exit code as Python's multiprocessing does (a signal is negative)."""
        while not self.has_ended(0):
            pass
        return self.code or 0

    def has_ended(self, options: int = os.WNOHANG) -> bool:
        """Tell whether it has ended, and keep its exit code then."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.code is not None


def detokenize(sock: socket.socket, main: int) -> NoReturn:
    """Be the detokenizer: ends with main, or never, where main ended before it could notice."""
    orphan = not import_everything(main)
    retitle("sglang::detokenizer")
    if not orphan:
        while sock.recv(64):
            pass
        os._exit(0)
    while True:
        signal.pause()


def escape() -> None:
    """Start a process that leaves session and family, closes everything and lives for ever."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, 1024)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    retitle("sglang::escaped")
    while True:
        signal.pause()
