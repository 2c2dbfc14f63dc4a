"""The keeper: the parent of engine processes, which outlives the helper and writes down how they ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

from .errors import OpError, Outcome, os_fault
from .files import CHUNK, remove, write_atomic, write_json
from .folder import Folder, plain
from .processes import boot_id, clean_environment, do_nothing, read_stat
from .programs import find_program

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from .errors import Json


GATE = 'IFS= read -r go && [ "$go" = start ] && exec "$BASH" "$0" </dev/null'
"""What bash runs first: it waits for the word that its record is on disk. If the keeper dies before, it ends."""
SLOT = 512
"""Bytes set aside at the start for the exit file, so that a full disk cannot swallow an exit code."""


class Keeper:
    """The parent of engine processes on one host: starts them, waits for them, writes down how they ended.

    It is one small process per ``start``. It leads no session and has no terminal, so no logout reaches it; orphans of
    the engine are re-parented to it. It ends when no child and no adopted descendant is left.
    """

    def __init__(self, folder: Folder) -> None:
        """Take over an orphaned process (this one) and say so on disk."""
        self.folder = folder
        self.subreaper = adopt_orphans()
        own = read_stat(os.getpid())
        self.identity = {"pid": os.getpid(), "start": own.start if own else 0}
        self.file = folder.path / "keepers" / "{pid}-{start}.json".format(**self.identity)
        self.boot = boot_id()
        self._children: dict[int, Json] = {}
        self._waking, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waking, False)
        self._write_self(None)

    def _write_self(self, ended: float | None) -> None:
        state = {"boot_id": self.boot, "subreaper": self.subreaper, "wall": time.time(), "ended": ended}
        # No sync: after a power cut neither the keeper nor anything of it lives.
        write_json(self.file, {**self.identity, **state}, sync=False)

    def run(self) -> None:
        """Obey until the helper has no more commands or is gone; then wait for the last descendant."""
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, do_nothing)
        say(1, {"keeper": self.identity, "subreaper": self.subreaper})
        for job in self._jobs():
            outcome = Outcome()
            answer: Json = {}
            with outcome:
                answer = {"record": self._start(job)}
            say(1, answer if outcome.fault is None else {"error": outcome.fault.to_json()})
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):
            os.dup2(nothing, descriptor)
        signal.set_wakeup_fd(-1)
        with contextlib.suppress(ChildProcessError):
            while True:
                self._ended(*os.waitpid(-1, 0))
        self._write_self(time.time())

    def _jobs(self) -> Iterator[Json]:
        """Yield commands line by line; children that end in the meantime are seen at once."""
        waiting = b""
        while True:
            ready = select.select([0, self._waking], [], [], 1.0)[0]
            if self._waking in ready:
                os.read(self._waking, CHUNK)
            self._reap()
            if 0 not in ready:
                continue
            data = os.read(0, CHUNK)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                self._ended(pid, status)

    def _ended(self, pid: int, status: int) -> None:
        """Write how a child ended into the place kept for it; adopted orphans only had to be reaped."""
        record = self._children.pop(pid, None)
        if record is None:
            return
        how = {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"code": os.WEXITSTATUS(status)}
        seen = {"wall": time.time(), "mono": time.monotonic()}
        text = json.dumps({"id": record["id"], "pid": pid, "start": record["start"], **how, **seen})
        target = self.folder.exit_file(record["key"])
        slot = target.with_suffix(".slot")
        with contextlib.suppress(OSError):
            descriptor = os.open(str(slot), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(descriptor, text.ljust(SLOT).encode())
            os.close(descriptor)
            slot.replace(target)

    def _start(self, job: Json) -> Json:
        """Start one process behind the gate; give its record, which is on disk before the process may run."""
        record_file, exit_file = self.folder.record_file(job["key"]), self.folder.exit_file(job["key"])
        log = self.folder.path / "logs" / plain(job["log"], "log")
        remove(exit_file)
        slot = exit_file.with_suffix(".slot")
        write_atomic(slot, b" " * SLOT, sync=False)
        try:
            with open_log(log) as output:
                record = {
                    **{key: job[key] for key in ("id", "key", "marker", "launch")},
                    "state": "starting",
                    "pid": None,
                    "pgid": None,
                    "sid": None,
                    "start": None,
                    "boot_id": self.boot,
                    "log": str(log),
                    "offset": output.seek(0, os.SEEK_END),
                    "wall": time.time(),
                    "uid": os.getuid(),
                    "keeper": self.identity,
                }
                write_json(record_file, record)
                return self._pass_gate(job, record, record_file, output.fileno())
        except OpError:
            for leftover in (record_file, slot):
                with contextlib.suppress(OpError):
                    remove(leftover)
            raise

    def _pass_gate(self, job: Json, record: Json, record_file: Path, output: int) -> Json:
        import subprocess

        script = self.folder.path / "scripts" / (job["key"] + ".sh")
        if not script.is_file():
            raise OpError("start-failed", f"{script} is missing", "prepare the host again", path=str(script))
        environment = {**clean_environment(), **job["env"]}
        gate, opener = os.pipe()
        try:
            child = subprocess.Popen(
                [find_bash(environment), "-c", GATE, str(script)],
                stdin=gate,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=str(self.folder.path),
                start_new_session=True,
            )
            found = read_stat(child.pid)
            start = found.start if found else 0
            ids = {"pid": child.pid, "pgid": child.pid, "sid": child.pid, "start": start}
            record = {**record, **ids, "state": "started", "wall": time.time()}
            # The Popen object is kept: its finalizer would otherwise wait for the child behind our back.
            self._children[child.pid] = {**record, "process": child}
            write_json(record_file, record)
            os.write(opener, b"start\n")
        except BrokenPipeError as error:
            raise OpError("start-failed", f"bash ended before it could start {script}", path=str(script)) from error
        except OSError as error:
            raise os_fault(error, error.filename or "bash", "start") from error
        finally:
            os.close(gate)
            os.close(opener)
        return record


def open_log(path: Path) -> Any:
    """Open a log for appending, unbuffered."""
    try:
        descriptor = os.open(str(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise os_fault(error, path, "open the log") from error
    return os.fdopen(descriptor, "ab", 0)


def find_bash(environment: Json) -> str:
    """Give the path of bash; not finding it is an error of its own."""
    bash = find_program("bash", environment.get("PATH", ""), "/bin", "/usr/bin", "/usr/local/bin")
    if bash is None:
        raise OpError("bash-missing", "there is no bash on this host", "install bash")
    return bash


def adopt_orphans() -> bool:
    """Ask the kernel to re-parent orphaned descendants to this process; False where that cannot be had."""
    try:
        import ctypes

        set_child_subreaper = 36
        return bool(ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def default_signals() -> None:
    """Let programs that we start begin with default handling and nothing blocked, whatever we inherited."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in signal.Signals:
        if number != signal.SIGPIPE and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, do_nothing)


def say(descriptor: int, value: Json) -> None:
    """Write one JSON line; a reader that is gone does not matter."""
    data = memoryview(json.dumps(value).encode() + b"\n")
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(descriptor, data) :]


def keeper_main(run_dir: str) -> None:
    """Leave the helper's family, then keep."""
    if os.fork():
        os._exit(0)
    default_signals()
    outcome = Outcome()
    with outcome:
        Keeper(Folder(run_dir)).run()
    if outcome.fault is not None:
        say(1, {"error": outcome.fault.to_json()})
