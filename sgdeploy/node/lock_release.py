"""How a lock stands, and taking it from somebody else: the helper that holds it ends, and tells its controller why."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from functools import partial

from .errors import OpError, os_fault
from .files import read_intact, remove, write_json
from .hello import SILENCE
from .locks import read_owner, take
from .processes import lives, read_stat, send_signal
from .threads import wait_until

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path

    from .call import Call
    from .errors import Json

TAKEN = "lock.taken"
"""Beside a lock while it is being taken from its holder: who does it, for the message to its controller."""
TAKE = signal.SIGUSR1
"""Tells a helper that its lock is being taken."""
POLITE, FORCED = 3.0, 2.0
"""Seconds in which a helper may tell its controller and end; and for the kernel to end it."""


class Held:
    """A lock that is held: by whom, through which helper, and how long that has heard nothing of its controller."""

    def __init__(self, path: Path) -> None:
        """Read the file of a lock that is held."""
        self.owner, self.helper, self.start = read_owner(path)
        self.silent = max(0.0, time.time() - path.stat().st_mtime)
        found = None if self.helper is None else read_stat(self.helper)
        self.seen = found is not None and found.start == self.start
        self.stopped = found is not None and found.state in "Tt"

    def to_json(self) -> Json:
        """Give it as it goes over the wire; ``left`` is the most that the helper waits for its controller."""
        return {
            "owner": self.owner,
            "helper": self.helper,
            "silent": round(self.silent, 1),
            "left": round(max(0.0, SILENCE - self.silent), 1),
            "stopped": self.stopped,
            "seen": self.seen,
        }


def held(path: Path) -> Held | None:
    """Look whether a lock is truly held."""
    try:
        descriptor = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise os_fault(error, path, "open the lock") from error
    try:
        return None if take(descriptor, fcntl.LOCK_SH) else Held(path)
    finally:
        os.close(descriptor)


def op_lock_state(call: Call) -> Json:
    """Tell how the lock stands."""
    found = held(call.folder.path / "lock")
    return {"held": None if found is None else found.to_json()}


def op_lock_release(call: Call) -> Json:
    """End the helper that holds the lock. Nothing that was started ends with it.

    Raises:
        OpError: ``lock-alive`` where its controller may live and it is not forced; ``not-seen``, ``lock-kept``.
    """
    path = call.folder.path / "lock"
    found = held(path)
    if found is None:
        return {"released": None}
    state = found.to_json()
    if not call.get("force") and found.silent < SILENCE:
        raise OpError("lock-alive", "its controller may live", **state)
    if found.helper is None or not found.seen:
        raise OpError("not-seen", "the helper that holds the lock is no process that this host shows", **state)
    note = path.with_name(TAKEN)
    with contextlib.suppress(OpError):
        write_json(note, {"by": call["by"], "helper": found.helper}, sync=False)
    try:
        for number, seconds in ((TAKE, 0.0 if found.stopped else POLITE), (signal.SIGKILL, FORCED)):
            process = read_stat(found.helper)
            if seconds and process is not None and process.start == found.start:
                send_signal(process, number)
                wait_until(partial(is_gone, found), seconds)
    finally:
        with contextlib.suppress(OpError):
            remove(note)
    if not is_gone(found):
        raise OpError("lock-kept", f"process {found.helper} could not be ended", **state)
    return {"released": state}


def is_gone(found: Held) -> bool:
    """Whether the helper has ended."""
    return not lives(found.helper, found.start)


def taken_by(path: Path) -> str:
    """Give who is taking the lock of this file from us."""
    note = read_intact(path.with_name(TAKEN)) or {}
    return str(note.get("by", "somebody"))
