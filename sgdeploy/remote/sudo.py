"""Root's rights for a user who logs in without them: the prefix of the helper's command, and what sudo says against it.

sudo is told to ask for nothing (``-n``): there is no terminal that could be typed into, and none is asked for. What it
says is matched by its words of sudo 1.8 and 1.9, and shown as it is where it says something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from sgdeploy.remote.channel import Ending

Words: TypeAlias = "tuple[str, str]"
"""Reason and next step."""

PREFIX: Final = ("sudo", "-n", "-H", "--")
"""``-H``: "~" is root's home, also where sudoers keeps HOME."""

_NO_PROGRAM: Final = 127
_PASSWORD: Final = ("password is required", "authentication is required", "no askpass")
_TERMINAL: Final = ("must have a tty",)
_FORBIDDEN: Final = ("not allowed to", "not in the sudoers", "may not run")


def lacks(python: str, ending: Ending) -> bool:
    """Tell whether sudo runs what it is asked to, but finds no such Python: ``sudo: python3: command not found``."""
    return ending.code != _NO_PROGRAM and ending.last_words.startswith(f"sudo: {python}")


def refusal(ending: Ending, user: str) -> Words | None:
    """Say why sudo did not start the helper; None where it is not sudo that says so.

    Args:
        ending: of the command, before the helper's first word.
        user: who logged in.
    """
    said = ending.last_words
    rule = "as root on it: visudo -f /etc/sudoers.d/sgdeploy, with the line"
    if ending.code == _NO_PROGRAM:
        return (
            f"there is no sudo for {user} in the PATH of the login shell",
            "install sudo on it, or log in as root (`user: root`, `sudo: false` in the inventory)",
        )
    if _is(said, _TERMINAL):
        return (
            f"sudo wants a terminal (requiretty), which the node helper does not have: {said}",
            f"{rule}: Defaults:{user} !requiretty",
        )
    if _is(said, _PASSWORD):
        return (
            f"sudo asks {user} for a password, which sgdeploy never gives: {said}",
            f"{rule}: {user} ALL=(root) NOPASSWD: ALL",
        )
    if _is(said, _FORBIDDEN):
        return f"sudo does not let {user} run python3 as root", f"{rule}: {user} ALL=(root) NOPASSWD: ALL"
    return None


def _is(said: str, marks: tuple[str, ...]) -> bool:
    return any(mark in said for mark in marks)
