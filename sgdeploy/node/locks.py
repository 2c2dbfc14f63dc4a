"""The lock of a run folder: one controller at a time, and a name for whoever holds it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import threading
import time
from functools import partial

from .errors import OpError, os_fault
from .files import CHUNK, make_folder, slurp
from .processes import read_stat
from .shapes import is_count
from .threads import wait_until

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path

    from .call import Call
    from .errors import Json


class Locks:
    """Locks that end with this process at the latest: the kernel frees an flock when its holder is gone."""

    RETRY = 0.5
    """Seconds of trying again: somebody who only asks who holds the lock takes it for an instant."""

    GOODBYE = 1.0
    """Seconds in which our controller can hear that a lock was taken."""

    def __init__(self) -> None:
        """Hold none."""
        self._held: dict[Path, tuple[int, list[Path]]] = {}
        self._guard = threading.Lock()
        self._taken = threading.Event()
        self._touched = 0.0

    def lock(self, call: Call) -> Json:
        """Take the lock of a run folder, and then write into it who holds it."""
        path = call.folder.path / "lock"
        with self._guard:
            if path in self._held:
                raise locked_by(path)
            made: set[Path] = set()
            descriptor = self._take(path, made)
            self._held[path] = (descriptor, sorted(made, reverse=True))
            own = read_stat(os.getpid())
            helper = {HELPER: os.getpid(), START: own.start if own is not None else None}
            write_owner(descriptor, {**call["owner"], **helper})
        return {}

    def hold(self, call: Call) -> Json:
        """Watch over the lock until cancelled.

        Raises:
            OpError: ``lock-taken`` once somebody else takes it; says who.
        """
        while not call.cancelled.wait(0.1):
            if self._taken.is_set():
                from .lock_release import taken_by

                raise OpError("lock-taken", "taken by " + taken_by(call.folder.path / "lock"))
        return {}

    def take_away(self, *_: object) -> None:
        """Hear, as a signal, that our locks are being taken: say so to our controller, then end."""
        self._taken.set()
        threading.Thread(target=self._end_taken, daemon=True).start()

    def _end_taken(self) -> None:
        time.sleep(self.GOODBYE)
        os.write(2, b"its lock was released by somebody else\n")
        os._exit(1)

    def heard(self) -> None:
        """Note that our controller lives, for whoever finds the lock: by the time of its file."""
        if time.monotonic() - self._touched >= 1.0:
            self._touched = time.monotonic()
            with self._guard:
                for descriptor, _ in self._held.values():
                    with contextlib.suppress(OSError):
                        os.utime(descriptor)

    def _take(self, path: Path, made: set[Path]) -> int:
        """Open and lock the file. One that its last holder has just put away, with its folder, is made anew."""
        deadline = time.monotonic() + self.RETRY
        while True:
            try:
                made.update(make_folder(path.parent))
                descriptor = open_lock(path)
            except OpError as error:
                if error.code == "missing" and time.monotonic() < deadline:
                    continue
                raise
            locked = wait_until(partial(take, descriptor, fcntl.LOCK_EX), max(0.0, deadline - time.monotonic()))
            if is_at(descriptor, path) and locked:
                return descriptor
            os.close(descriptor)
            if time.monotonic() >= deadline:
                raise locked_by(path)

    def unlock(self, call: Call) -> Json:
        """Free the lock; nothing happens where we do not hold it."""
        with self._guard:
            self._release(call.folder.path / "lock")
        return {}

    def release_all(self) -> None:
        """Free every lock, at the end of the helper."""
        with self._guard:
            for path in list(self._held):
                self._release(path)

    def _release(self, path: Path) -> None:
        if path not in self._held:
            return
        descriptor, made = self._held.pop(path)
        write_owner(descriptor, {})
        with contextlib.suppress(OSError):
            if [entry.name for entry in path.parent.iterdir()] == [path.name]:
                # Nothing was ever done here: not even the folders stay that were made for the lock.
                path.unlink()
                for folder in made or [path.parent]:
                    folder.rmdir()
        os.close(descriptor)

    @staticmethod
    def owner(call: Call) -> Json:
        """Give who holds the lock, only if it is truly held."""
        path = call.folder.path / "lock"
        try:
            descriptor = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return {"owner": None}
        except OSError as error:
            raise os_fault(error, path, "open the lock") from error
        try:
            free = take(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)
        return {"owner": None if free else read_owner(path)[0]}


HELPER = "helper"
"""In a lock file: the pid of the node helper that holds it, beside what its controller says of itself."""
START = "helper_start"
"""When it was started: both together are one process."""
OWNER_SPACE = 1024
"""Bytes that a lock file keeps, so that its next owner can write itself down on a full disk too."""


def open_lock(path: Path) -> int:
    """Open a lock file; for reading only where the file system has become so, which locks just as well."""
    try:
        return os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS or not path.exists():
            raise os_fault(error, path, "open the lock") from error
        return os.open(str(path), os.O_RDONLY | os.O_CLOEXEC)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def write_owner(descriptor: int, owner: Json) -> None:
    """Write who holds a lock. It is for people: where it cannot be written, the lock holds all the same."""
    text = json.dumps(owner).encode().ljust(OWNER_SPACE)
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))


def locked_by(path: Path) -> OpError:
    """Say who holds a lock."""
    owner, helper, _ = read_owner(path)
    who = "{}@{} (pid {})".format(*(owner.get(key, "?") for key in ("user", "host", "pid")))
    hint = "wait until that command has ended"
    return OpError("locked", f"locked by {who}", hint, owner=owner, helper=helper)


def take(descriptor: int, kind: int) -> bool:
    """Try to lock without waiting."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_owner(path: Path) -> tuple[Json, int | None, int | None]:
    """Read who wrote itself into a lock file, and which node helper holds it for them: pid and start."""
    try:
        owner = json.loads(slurp(str(path), CHUNK) or b"")
    except (ValueError, RecursionError):
        owner = {}
    owner = owner if isinstance(owner, dict) else {}
    helper, start = owner.pop(HELPER, None), owner.pop(START, None)
    return owner, helper if is_count(helper) else None, start if is_count(start) else None
