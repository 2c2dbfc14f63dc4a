"""Equal files: written once, and given further names."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from .job import PARTIAL, RefusedError
from .lock import remove

_FICLONE = 0x40049409
"""The request that makes a file share all blocks of another (``linux/fs.h``)."""

_CANNOT = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.EINVAL, errno.ENOTTY))


def partial_of(path: Path) -> Path:
    """Give what a file is called until it is finished."""
    return path.with_name("." + path.name + PARTIAL)


def replicate(out: Path, path: str, twin: str, how: str) -> None:
    """Give the bytes of ``twin`` the name ``path`` as well; what stood there is replaced.

    Raises:
        RefusedError: the file system cannot do it that way (``replicas``).
    """
    final, first = out / path, out / twin
    partial = partial_of(final)
    remove(partial)
    try:
        if how == "link":
            os.link(first, partial)
        elif how == "symlink":
            partial.symlink_to(os.path.relpath(first, final.parent))
        else:
            _reflink(first, partial)
    except OSError as error:
        remove(partial)
        if error.errno in _CANNOT:
            raise RefusedError("replicas", how=how, path=path, twin=twin, reason=error.strerror) from error
        raise
    remove(final)  # renaming onto another name of the same file would do nothing
    partial.rename(final)


def _reflink(first: Path, partial: Path) -> None:
    with first.open("rb") as source, partial.open("xb") as copy:
        fcntl.ioctl(copy.fileno(), _FICLONE, source.fileno())
    partial.chmod(first.stat().st_mode & 0o777)
