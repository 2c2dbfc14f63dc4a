"""Names of environment variables that nobody may set: the one list, for profiles and for scripts alike."""

from __future__ import annotations

import re

_BASH = re.compile(
    r"_|BASHOPTS|BASHPID|BASH_(?!ENV$)\w+|DIRSTACK|EPOCHREALTIME|EPOCHSECONDS|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OPTIND"
    r"|PIPESTATUS|PPID|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID"
)
"""Bash computes these itself, or evaluates what they are given: a value would not reach the process."""

_OURS = re.compile(r"run_dir|SGDEPLOY_MARK\w*|SGDEPLOY_SECRET_\w+")
"""The scripts use these, or processes are found by them."""


def keeper(name: str) -> str | None:
    """Tell whose a variable is: ``bash`` or ``sgdeploy``; None where anybody may set it."""
    if _BASH.fullmatch(name):
        return "bash"
    return "sgdeploy" if _OURS.fullmatch(name) else None
