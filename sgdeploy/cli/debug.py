"""The debug file that is written when sgdeploy itself fails: what a bug report needs, and no secrets."""

from __future__ import annotations

import os
import platform
import shlex
import tempfile
import traceback
from collections.abc import Collection, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from sgdeploy import __version__
from sgdeploy.cli.redact import redact, redact_words
from sgdeploy.paths import state_dir

_LIBRARIES = ("asyncssh", "cryptography", "jinja2", "pydantic", "pydantic-core", "pyyaml", "rich", "typer")


def versions() -> dict[str, str]:
    """Name the versions that matter for a bug report: sgdeploy, Python, the system, the libraries."""
    found = {"sgdeploy": __version__, "python": platform.python_version(), "system": platform.platform()}
    return found | {library: _version(library) for library in _LIBRARIES}


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"


def write_report(
    error: BaseException, argv: Sequence[str], environ: Mapping[str, str], secret_names: Collection[str]
) -> Path:
    """Write the debug file and give its path, or the null device's where no folder can be written.

    Args:
        error: what went wrong, with its traceback.
        argv: the words of the command line.
        environ: environment variables; their values are hidden where they are secret and never listed.
        secret_names: variables known to hold secrets.
    """
    sections = [
        *(f"{name}: {version}" for name, version in versions().items()),
        f"command: {shlex.join(['sgdeploy', *redact_words(argv, environ, secret_names)])}",
        "",
        redact("".join(traceback.format_exception(error)), environ, secret_names),
    ]
    written = (_write(folder, "\n".join(sections)) for folder in _folders(environ))
    return next((path for path in written if path is not None), Path(os.devnull))


def _folders(environ: Mapping[str, str]) -> list[Path]:
    """Give the folders to try, the best first."""
    try:
        ours = [state_dir(environ) / ".debug"]
    except RuntimeError:  # no home at all
        ours = []
    return [*ours, Path(tempfile.gettempdir())]


def _write(folder: Path, text: str) -> Path | None:
    """Write a new file of mode 0600 there, or give None where that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=folder, prefix="sgdeploy-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        return None
    return Path(name)
