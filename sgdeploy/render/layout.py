"""Names of files in a host's run folder: which script belongs to which process, and that no name escapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from sgdeploy.plan.model import Process
from sgdeploy.render.quote import RenderError, plain

_LONGEST_NAME = 255
"""Bytes in one file name, as on ext4 and XFS (NAME_MAX)."""


def script_key(process: Process) -> str:
    """Give the name that a process has in the run folder, if it can be a file's.

    Raises:
        RenderError: the id makes no file name.
    """
    return component(process.key, f"process {plain(process.id)}", room=len(".json"))


def script_keys(processes: Iterable[Process]) -> dict[str, str]:
    """Give the key of each process of one host by process id.

    Raises:
        RenderError: two processes would share one script (``a-b/c`` and ``a/b-c``).
    """
    keys = {process.id: script_key(process) for process in processes}
    shared = [key for key, count in Counter(keys.values()).items() if count > 1]
    if shared:
        owners = ", ".join(sorted(plain(name) for name, key in keys.items() if key in shared))
        raise RenderError(
            f"these processes would share the script {plain(shared[0])}.sh: {owners}",
            hint="rename an instance so that the names differ by more than a dash",
        )
    return keys


def component(name: str, owner: str, *, room: int = 0) -> str:
    """Give back a name if it is one safe step of a path.

    Args:
        name: the name.
        owner: whose name it is, for the message.
        room: bytes that an ending will add.

    Raises:
        RenderError: it is empty, too long, ``.`` or ``..``, or holds a slash or a NUL.
    """
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise RenderError(f"{owner}: {name!a} cannot be the name of a file")
    if len(name.encode(errors="replace")) + room > _LONGEST_NAME:
        raise RenderError(f"{owner}: the file name would be longer than {_LONGEST_NAME} bytes", hint="shorten it")
    return name


def inside(path: str, owner: str) -> str:
    """Give back a relative path if it stays inside the run folder.

    Raises:
        RenderError: it is absolute, empty, or climbs with ``..``.
    """
    steps = PurePosixPath(path)
    if steps.is_absolute() or not steps.parts or ".." in steps.parts or "\0" in path:
        raise RenderError(f"{owner}: {path!a} does not stay inside the run folder")
    return str(steps)
