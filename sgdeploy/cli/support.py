"""What a bug report needs about this machine. Names and numbers only: no value of any variable, no path, no key."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sgdeploy
from sgdeploy.cli.debug import versions
from sgdeploy.deploy.registry import Known, Registry, default_base
from sgdeploy.errors import StateError
from sgdeploy.words import plural

_VARIABLES = (
    "SGDEPLOY_",
    "SSH_",
    "XDG_STATE_HOME",
    "HOME",
    "TERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "LANG",
    "LC_",
)
"""Variables that change what we do: their names are told where they are set, by the beginning of the name."""

_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
_SSH_FILES = ("config", "known_hosts")


def support(environ: Mapping[str, str]) -> dict[str, Any]:
    """Gather it, as plain JSON values."""
    return {
        **versions(),
        "distribution": _distribution(),
        "machine": f"{platform.machine()}, {plural(os.cpu_count() or 0, 'cpu')}",
        "installed": "in a checkout" if (_home().parent / "pyproject.toml").is_file() else "as a package",
        "user": "root" if os.geteuid() == 0 else "not root",
        "terminal": {name: getattr(sys, name).isatty() for name in ("stdin", "stdout", "stderr")},
        "encoding": sys.stdout.encoding,
        "ssh": {name: _lines(Path("~/.ssh", name)) for name in _SSH_FILES},
        "variables": sorted(name for name in environ if _told(name)),
        "deployments": _deployments(environ),
    }


def _home() -> Path:
    return Path(sgdeploy.__file__).parent


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "without a name")
    except OSError:
        return "does not say"


def _lines(path: Path) -> str:
    """Say whether a file is there and how long it is, not what is in it."""
    try:
        return plural(len(path.expanduser().read_bytes().splitlines()), "line")
    except FileNotFoundError:
        return "not there"
    except (OSError, RuntimeError) as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or 'no home folder'}"


def _told(name: str) -> bool:
    return name.startswith(_VARIABLES) or name.lower() in _PROXIES


def _deployments(environ: Mapping[str, str]) -> dict[str, str] | str:
    """Name the deployments that are known here, and what each is."""
    try:
        registry = Registry(default_base(environ))
        return {name: _described(registry, name) for name in registry.names()}
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except RuntimeError:
        return "none can be known without a home folder"


def _described(registry: Registry, name: str) -> str:
    try:
        known: Known | None = registry.recall(name)
    except StateError:
        return "a damaged record"
    if known is None:
        return "gone meanwhile"
    plan = known.plan
    size = f"{plural(len(plan.processes), 'process')} on {plural(len(plan.hosts), 'host')}"
    there = "" if known.profile.is_file() else ", its profile is gone"
    away = ", taken down" if known.away else ""
    return f"{plan.topology} on {plan.platform}, engine {plan.engine_version}, {size}, {plan.digest[:19]}{away}{there}"
