"""Where our own data lies, from a checkout and from an installed wheel alike, and where a user's state is kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE = Path(__file__).resolve().parent


def data_dir(name: str) -> Path:
    """Find one of ``profiles``, ``templates``, ``inventories``.

    In a checkout they stand beside the package; in a wheel they travel as ``sgdeploy/_data/<name>``.

    Raises:
        FileNotFoundError: the installation is broken.
    """
    for base in (_PACKAGE / "_data", _PACKAGE.parent):
        found = base / name
        if found.is_dir():
            return found
    raise FileNotFoundError(f"{name}/ is missing beside the sgdeploy package; reinstall sgdeploy")


def package_file(name: str) -> Path:
    """Find a file inside the package that is sent to hosts.

    Raises:
        FileNotFoundError: the installation is broken.
    """
    found = _PACKAGE / name
    if not found.is_file():
        raise FileNotFoundError(f"{name} is missing in the sgdeploy package; reinstall sgdeploy")
    return found


def is_there(path: Path) -> bool:
    """Whether something is there; what no system can name (too long, a NUL) is not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    """Whether a file is there; what no system can name is none."""
    return is_there(path) and path.is_file()


def is_folder(path: Path) -> bool:
    """Whether a folder is there; what no system can name is none."""
    return is_there(path) and path.is_dir()


def state_dir(environ: Mapping[str, str]) -> Path:
    """Give ``$XDG_STATE_HOME/sgdeploy``, or ``~/.local/state/sgdeploy``.

    A relative ``XDG_STATE_HOME`` does not count, as the XDG Base Directory Specification has it: a deployment's name
    must mean the same in any folder.

    Raises:
        RuntimeError: there is no home.
    """
    state = Path(environ.get("XDG_STATE_HOME", ""))
    home = environ.get("HOME")
    return (state if state.is_absolute() else (Path(home) if home else Path.home()) / ".local" / "state") / "sgdeploy"
