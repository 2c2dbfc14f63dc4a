"""Which file a reference means, and how problems call it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sgdeploy.paths import data_dir, is_there

SHIPPED = "shipped:"
"""Prefix of files that travel with sgdeploy: ``shipped:kunpeng/deepseek-v3-native.yaml``."""


def locate(reference: str, folder: Path, kind: str = "profiles") -> Path:
    """Give the absolute path that a reference means.

    Args:
        reference: a path, absolute, from the home folder (``~``) or relative to ``folder``; or ``shipped:`` and a path
            below what ships.
        folder: absolute folder of the file that holds the reference.
        kind: which shipped folder is meant, ``profiles`` or ``inventories``.

    Raises:
        FileNotFoundError: the installation lacks its shipped files.
    """
    if reference.startswith(SHIPPED):
        return Path(os.path.normpath(data_dir(kind) / reference.removeprefix(SHIPPED).lstrip("/")))
    path = Path(reference)
    with contextlib.suppress(RuntimeError):  # no such user: then there is no such file either, which is told later
        path = path.expanduser()
    return Path(os.path.normpath(folder / path))


def overlay_reference(path: Path) -> str:
    """Turn a bare word that is no file (``rehearsal``) into the shipped overlay of that name."""
    text = str(path)
    if path.name == text and not path.suffix and not is_there(path):
        return f"{SHIPPED}overlays/{text}.yaml"
    return text


def shown(path: Path, *, absolute: bool) -> str:
    """Name a file for people: relative to the working folder where that is shorter and the user does so too."""
    full = str(path)
    if absolute:
        return full
    near = os.path.relpath(full)
    return near if len(near) <= len(full) else full
