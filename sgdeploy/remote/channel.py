"""A byte pipe to a started helper, whatever carries it, and the bootstrap that starts the helper at the other end."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Protocol

BOOTSTRAP = (
    "import io,sys;"
    'sys.version_info<(3,7) and sys.exit("sgdeploy needs Python 3.7 or newer, this is "+sys.version.split()[0]);'
    "f=io.BufferedReader(io.FileIO(0,closefd=False),1);s=f.read(int(f.readline()));"
    'exec(compile(s,"sgdeploy-node","exec"),{"__name__":"__main__","SOURCE":s})'
)
"""Reads a byte count, a line end and that many bytes of source from stdin, not one more, and runs them.

It is one line without single quotes, ``!``, ``$`` or backslashes, so that single quotes carry it through bash, dash,
csh and fish alike.
"""

PYTHON_FLAGS = ("-I", "-S", "-u")
KEPT_NOISE = 2048
"""How much of stderr, and of what comes before the greeting, is kept for messages, in bytes."""


def helper_source() -> bytes:
    """Give the source of the node helper as it is sent over the line.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    return resources.files("sgdeploy.remote").joinpath("node.py").read_bytes()


@dataclass(frozen=True)
class Ending:
    """How the far end of a channel ended, as far as it can be known.

    Attributes:
        code: exit code of the helper, or None where it was killed or the link broke first.
        signal: name of the signal that killed it (``SIGKILL``), or "".
        last_words: last line of its stderr, or "".
        link: what happened to the link, where that came first, or "".
    """

    code: int | None = None
    signal: str = ""
    last_words: str = ""
    link: str = ""

    def __str__(self) -> str:
        """Say it in words that follow "the node helper"."""
        if self.link:
            return self.link
        if self.signal:
            what = f"the node helper was killed by {self.signal}"
        elif self.code is not None:
            what = f"the node helper ended with exit code {self.code}"
        else:
            what = "the node helper closed its output"
        return f"{what}: {self.last_words}" if self.last_words else what


class Channel(Protocol):
    """Stdin, stdout and the tail of stderr of a helper that runs somewhere."""

    async def read(self) -> bytes:
        """Give the next bytes of its stdout; ``b""`` once it or the link has ended. Never raises for that."""
        ...

    def write(self, data: bytes) -> None:
        """Queue bytes for its stdin; silently dropped once the other end is gone (``read`` tells)."""
        ...

    async def drain(self) -> None:
        """Wait until the queue is short again; returns at once when the other end is gone."""
        ...

    async def ending(self) -> Ending:
        """Say how it ended; to be asked after ``read`` gave ``b""``; waits at most two seconds."""
        ...

    async def close(self) -> None:
        """Close stdin, which ends the helper; use force after two seconds. Never raises."""
        ...


def last_line(data: bytes) -> str:
    """Give the last line that says something, decoded and cut to 300 characters."""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    return next((line[:300] for line in reversed(lines) if line), "")
