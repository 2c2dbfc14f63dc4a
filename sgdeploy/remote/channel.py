"""A byte pipe to a started helper, whatever carries it, and the bootstrap that starts the helper at the other end."""

from __future__ import annotations

import marshal
import sys
import zlib
from dataclasses import dataclass
from importlib import resources
from importlib.abc import InspectLoader
from importlib.util import MAGIC_NUMBER, find_spec
from types import CodeType
from typing import Protocol

BOOTSTRAP = (
    "import io,marshal,sys;"
    'sys.version_info<(3,7) and sys.exit("sgdeploy needs Python 3.7 or newer, this is "+sys.version.split()[0]);'
    "import zlib,_frozen_importlib_external as e;"
    "f=io.BufferedReader(io.FileIO(0,closefd=False),1);"
    "t,c,s=f.readline().split();c=f.read(int(c));s=f.read(int(s));"
    "u=str(sys.implementation.cache_tag)+e.MAGIC_NUMBER.hex();"
    'exec(marshal.loads(zlib.decompress(c))if t.decode()==u else compile(zlib.decompress(s),"sgdeploy-node","exec"),'
    '{"__name__":"__main__"})'
)
"""Reads what ``packed`` gives from stdin, not a byte more, and runs it.

It is one line without single quotes, ``!``, ``$`` or backslashes, so that single quotes carry it through bash, dash,
csh and fish alike.
"""

PYTHON_FLAGS = ("-I", "-S", "-u")
KEPT_NOISE = 2048
"""How much of stderr, and of what comes before the greeting, is kept for messages, in bytes."""


def helper_source() -> bytes:
    """Give the source of the node helper.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    return resources.files("sgdeploy.remote").joinpath("node.py").read_bytes()


def packed_helper() -> bytes:
    """Give the node helper as the bootstrap reads it; compiled by Python's own import, which keeps what it compiled.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    spec = find_spec("sgdeploy.remote.node")
    loader = spec.loader if spec is not None else None
    return packed(
        helper_source(), loader.get_code("sgdeploy.remote.node") if isinstance(loader, InspectLoader) else None
    )


def packed(source: bytes, code: CodeType | None = None) -> bytes:
    """Give a program as the bootstrap reads it: compiled, and as source for a Python whose bytecode is another.

    To compile the helper takes a Python longer than to start (16 ms of CPU where that takes 7), so hosts are spared it.
    Bytecode fits where the tag of cached files and their magic number are the same, which is what Python itself goes
    by. Compressed, the two parts are as large as the source alone (110 kB).

    Args:
        source: the program's file.
        code: the same compiled, where that has been done already.
    """
    tag = f"{sys.implementation.cache_tag}{MAGIC_NUMBER.hex()}"
    if code is None:
        code = compile(source, "sgdeploy-node", "exec", dont_inherit=True)
    parts = [zlib.compress(part) for part in (marshal.dumps(code), source)]
    return f"{tag} {len(parts[0])} {len(parts[1])}\n".encode() + b"".join(parts)


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

    async def close(self, pid: int | None) -> None:
        """Close stdin, which ends the helper, whose pid it is; use force after two seconds. Never raises."""
        ...


def last_line(data: bytes) -> str:
    """Give the last line that says something, decoded and cut to 300 characters."""
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    return next((line[:300] for line in reversed(lines) if line), "")
