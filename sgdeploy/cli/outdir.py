"""Writing a folder of scripts for a person, without ever harming a folder that is not ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sgdeploy.errors import UsageError
from sgdeploy.paths import is_folder, is_there

MARK = ".sgdeploy-files"
"""File in the folder that lists what we wrote there, so that the next run replaces exactly that."""


def write_tree(folder: Path, files: Mapping[str, str]) -> int:
    """Write files below a folder that is new, empty or ours, and tell how many; scripts become executable.

    What an earlier run wrote and this one does not is removed.

    Raises:
        UsageError: the folder holds files that are not ours, or cannot be written; nothing was changed then.
    """
    if is_there(folder) and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", hint="name a new folder, or an empty one")
    earlier = _earlier(folder)
    try:
        for name in sorted(set(earlier) - set(files)):
            (folder / name).unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).write_text("".join(f"{name}\n" for name in sorted(files)), encoding="utf-8")
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o755 if path.suffix == ".sh" else 0o644)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}") from error
    return len(files)


def _earlier(folder: Path) -> list[str]:
    """List what we wrote there before; only names that stay inside the folder count."""
    if not is_folder(folder) or not any(folder.iterdir()):
        return []
    mark = folder / MARK
    if not mark.is_file():
        raise UsageError(
            f"{folder} is not empty and was not written by sgdeploy", hint="name a new folder, or empty this one"
        )
    names = mark.read_text(encoding="utf-8").splitlines()
    base = folder.resolve()
    return [name for name in names if name and base in (base / name).resolve().parents]
