"""The operation ``gather``: facts about this host, read side by side."""

from __future__ import annotations

import errno
import os
import re
import stat
from functools import partial
from pathlib import Path

from .files import slurp
from .programs import find_program, run_command
from .threads import Crew, Later

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .call import Call
    from .errors import Json


GATHER_COMMAND, GATHER_LOOK = 10.0, 5.0
MATCHES = 4096
"""At most so many files for one pattern."""


def op_gather(call: Call) -> Json:
    """Read facts; each part on its own, so that one that hangs costs only itself."""
    commands = {n: Later(partial(run_command, list(a), GATHER_COMMAND)) for n, a in call.get("commands", {}).items()}
    kinds = {"files": read_files, "stat": look_at, "space": space_at, "programs": look_for}
    asked = {kind: list(dict.fromkeys(call.get(kind, []))) for kind in kinds}
    works: dict[Any, Callable[[], Json]] = {}
    for kind, whats in asked.items():
        works.update({(kind, what): partial(kinds[kind], what) for what in whats})
    crew = Crew(works, GATHER_LOOK)
    crew.run()

    def answers(kind: str, otherwise: Json) -> Json:
        return {what: crew.answer((kind, what), otherwise) for what in asked[kind]}

    texts: Json = {}
    for found in answers("files", {}).values():
        texts.update({path: text for path, text in found.items() if path != "error"})
    variables = {name.lower() for name in call.get("environ", [])}
    return {
        "machine": {"arch": os.uname().machine, "page_size": os.sysconf("SC_PAGE_SIZE")},
        "environ": {name: value for name, value in os.environ.items() if name.lower() in variables},
        "files": texts,
        "stat": answers("stat", GONE),
        "space": answers("space", {"total": 0, "free": 0, "writable": False, "inodes_free": 0, "nearest": None}),
        "programs": {name: found.get("path") for name, found in answers("programs", {}).items()},
        "commands": {name: work.wait(GATHER_COMMAND + 3.0) for name, work in commands.items()},
    }


def look_for(name: str) -> Json:
    """Find a program as a session of root would: the folders that only root's PATH has come last."""
    return {"path": find_program(name, os.environ.get("PATH", ""), "/usr/sbin", "/sbin")}


def read_files(pattern: str) -> dict[str, str]:
    """Read regular files by path or pattern; those that cannot be read are left out."""
    path = Path(pattern).expanduser()
    found: Iterable[Path] = [path]
    if re.search(r"[*?\[]", pattern):
        found = sorted(Path("/").glob(str(path).lstrip("/")))[:MATCHES]
    texts = {}
    for match in found:
        data = slurp(str(match)) if match.is_file() else None
        if data is not None:
            texts[pattern if match is path else str(match)] = data.decode("utf-8", "replace")
    return texts


KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISBLK, "block-device"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
)
GONE = {"exists": False, "kind": None, "mode": None, "size": None, "executable": False, "readable": False}


def look_at(name: str) -> Json:
    """Tell what a path is."""
    path = Path(name).expanduser()
    try:
        found = path.stat()
    except OSError as error:
        if error.errno != errno.ENOENT:
            return {**GONE, "error": error.strerror}
        return {**GONE, "kind": "dangling-link"} if path.is_symlink() else GONE
    kind = next((kind for test, kind in KINDS if test(found.st_mode)), "other")
    bits = f"{stat.S_IMODE(found.st_mode):04o}"
    can = {"executable": os.access(str(path), os.X_OK), "readable": os.access(str(path), os.R_OK)}
    return {"exists": True, "kind": kind, "mode": bits, "size": found.st_size, **can}


def space_at(name: str) -> Json:
    """Tell how much space there is where a path is, or would be."""
    nearest = Path(name).expanduser()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    found = os.statvfs(str(nearest))
    writable = os.access(str(nearest), os.W_OK | os.X_OK) and nearest.is_dir() and not found.f_flag & os.ST_RDONLY
    sizes = {"total": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}
    # Some file systems (btrfs, some NFS) count no inodes at all; null then, not "none left".
    inodes = found.f_favail if found.f_files else None
    return {**sizes, "writable": writable, "inodes_free": inodes, "nearest": str(nearest)}
