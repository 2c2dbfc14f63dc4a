"""A byte pipe to a started helper, whatever carries it, and the parcel that the helper arrives as."""

from __future__ import annotations

import marshal
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.abc import InspectLoader
from importlib.util import MAGIC_NUMBER, find_spec
from types import CodeType
from typing import Protocol

from sgdeploy.node.boot import PACKAGE
from sgdeploy.parcels import sources

KEPT_NOISE = 2048
"""How much of stderr, and of what comes before the greeting, is kept for messages, in bytes."""

_PLAIN = 2
"""A format of marshal that every Python 3 reads, and that is the same for the same content."""


def packed_helper() -> bytes:
    """Give the node helper as the bootstrap reads it; compiled by Python's own import, which keeps what it compiled.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    modules = sources("node")
    codes = {name: _code(f"sgdeploy.node.{name}") for name in modules if name != "__init__"}
    return packed(modules, {name: code for name, code in codes.items() if code is not None})


def _code(name: str) -> CodeType | None:
    spec = find_spec(name)
    loader = spec.loader if spec is not None else None
    return loader.get_code(name) if isinstance(loader, InspectLoader) else None


def packed(modules: Mapping[str, bytes], codes: Mapping[str, CodeType] | None = None) -> bytes:
    """Give a package as ``sgdeploy.node.boot`` reads it: compiled, and as source for Pythons of other bytecode.

    To compile the helper takes a Python longer than to start (16 ms of CPU where that takes 7), so hosts are spared it.
    Bytecode fits where the tag of cached files and their magic number are the same, which is what Python itself goes
    by. Compressed, both parts together are 140 kB.

    Args:
        modules: the source of each module, by name.
        codes: those of them that have been compiled already.
    """
    tag = f"{sys.implementation.cache_tag}{MAGIC_NUMBER.hex()}"
    compiled = {
        name: (codes or {}).get(name) or compile(source, f"{PACKAGE}.{name}.py", "exec", dont_inherit=True)
        for name, source in modules.items()
    }
    parts = [zlib.compress(part) for part in (marshal.dumps(compiled), marshal.dumps(dict(modules), _PLAIN))]
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
