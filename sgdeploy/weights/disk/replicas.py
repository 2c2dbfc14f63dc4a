"""Equal files: written once, and given further names."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import Literal, TypeAlias

from sgdeploy.weights.disk.target import PARTIAL
from sgdeploy.weights.errors import ReplicaError

Replicas: TypeAlias = Literal["link", "symlink", "reflink", "copy"]

_FICLONE = 0x40049409
"""The request that makes a file share all blocks of another (``linux/fs.h``)."""


def replicate(target: Path, path: str, twin: str, how: Replicas) -> None:
    """Give the bytes of ``twin`` the name ``path`` as well; what stood there is replaced.

    Raises:
        ReplicaError: the file system cannot do it that way.
    """
    final = target / path
    partial = final.with_name(f".{final.name}{PARTIAL}")
    partial.unlink(missing_ok=True)
    try:
        if how == "link":
            os.link(target / twin, partial)
        elif how == "symlink":
            partial.symlink_to(os.path.relpath(target / twin, final.parent))
        else:
            _reflink(target / twin, partial)
    except OSError as error:
        partial.unlink(missing_ok=True)
        if error.errno in {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.EINVAL, errno.ENOTTY}:
            raise ReplicaError(
                f"the file system of {target} cannot {how} {path} to {twin}: {error.strerror}",
                hint="pass --replicas copy (or another kind) and run again; what is written already is kept",
            ) from error
        raise
    final.unlink(missing_ok=True)  # renaming onto another name of the same file would do nothing
    partial.replace(final)


def _reflink(twin: Path, partial: Path) -> None:
    with twin.open("rb") as source, partial.open("xb") as copy:
        fcntl.ioctl(copy.fileno(), _FICLONE, source.fileno())
    shutil.copymode(twin, partial)
