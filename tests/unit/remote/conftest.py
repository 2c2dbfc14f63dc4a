"""A session to the stub helper, and a channel that says what a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from sgdeploy.parcels import sources
from sgdeploy.plan.model import PlanHost
from sgdeploy.remote.channel import Ending, packed
from sgdeploy.remote.greeting import greet
from sgdeploy.remote.local import open_local
from sgdeploy.remote.session import Session

STUB = packed({**sources("node"), "main": Path(__file__).with_name("stub_node.py").read_bytes()})
HERE = PlanHost(host="n01", address="127.0.1.1", ssh="n01", connection="local", run_dir="/nowhere")


class Script:
    """A channel that plays given chunks, then either stays silent or ends."""

    def __init__(self, *chunks: bytes, ending: Ending | None = None) -> None:
        """Take the chunks; without an ending the last read waits for ever."""
        self._chunks = list(chunks)
        self._ending = ending
        self.written = b""
        self.closed = False

    async def read(self) -> bytes:
        """Give the next chunk, after everybody else had a turn."""
        await asyncio.sleep(0)
        if self._chunks:
            return self._chunks.pop(0)
        if self._ending is None:
            await asyncio.Event().wait()
        return b""

    def write(self, data: bytes) -> None:
        """Keep what is written."""
        self.written += data

    async def drain(self) -> None:
        """Never wait."""

    async def ending(self) -> Ending:
        """Say how it ended."""
        return self._ending or Ending()

    async def close(self, pid: int | None) -> None:
        """Note it."""
        del pid
        self.closed = True


@pytest.fixture
async def session(no_leaks: None) -> AsyncIterator[Session]:
    """Give a session to the stub helper on this machine."""
    del no_leaks
    async with AsyncExitStack() as stack:
        channel = await open_local()
        opened = Session(HERE, channel, await greet(channel, STUB, limit=20))
        stack.push_async_callback(opened.close)
        yield opened
