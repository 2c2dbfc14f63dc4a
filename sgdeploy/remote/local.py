"""A host that is this machine: the helper as a subprocess, no sshd."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Final

from sgdeploy.node.boot import BOOTSTRAP, PYTHON_FLAGS
from sgdeploy.remote.channel import KEPT_NOISE, Ending, last_line
from sgdeploy.remote.waits import stop, within

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE: Final = 2.0
CHUNK: Final = 65536


class LocalChannel:
    """Channel to a subprocess of ours."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Take over a process that was started with three pipes."""
        if process.stdin is None or process.stdout is None or process.stderr is None:
            message = "the helper needs three pipes"
            raise ValueError(message)
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._errors = bytearray()
        self._stopped = asyncio.Event()
        self._listener = asyncio.create_task(self._listen(process.stderr))

    async def read(self) -> bytes:
        """Give the next bytes of its stdout, ``b""`` at the end."""
        try:
            return await self._stdout.read(CHUNK)
        except OSError:
            return b""

    def write(self, data: bytes) -> None:
        """Queue bytes for its stdin."""
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def drain(self) -> None:
        """Wait until the queue is short again."""
        with contextlib.suppress(OSError):
            await self._stdin.drain()

    async def ending(self) -> Ending:
        """Say how it ended."""
        await within(PATIENCE, self._process.wait(), self._stopped.wait())
        code = self._process.returncode
        words = last_line(bytes(self._errors))
        if code is not None and code < 0:
            return Ending(signal=_signal_name(-code), last_words=words)
        return Ending(code=code, last_words=words)

    async def close(self, pid: int | None) -> None:
        """Close stdin, wait, kill if it must be."""
        del pid  # we are its parent
        self._stdin.close()
        if not await self._gone():
            await self.abandon()
        await stop(self._listener)

    async def abandon(self) -> None:
        """Kill a helper that never began, or that does not end."""
        self._stdin.close()  # which ends one that runs as root, and is not ours to kill
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._process.kill()
        await self._gone()
        await stop(self._listener)

    async def _gone(self) -> bool:
        # What nobody reads any more must be taken out of the pipe: asyncio does not report an end before that.
        return await within(PATIENCE, self._process.wait(), self._swallow())

    async def _swallow(self) -> None:
        while await self.read():
            pass

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(CHUNK):
            self._errors += data
            del self._errors[:-KEPT_NOISE]
        self._stopped.set()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def open_local(prefix: Sequence[str] = ()) -> LocalChannel:
    """Start the bootstrap with the Python that runs us; ``prefix`` goes before its command (sudo).

    It leads a session of its own: Ctrl-C on the terminal reaches us alone, and we end it in order.

    Raises:
        OSError: no process could be started.
    """
    process = await asyncio.create_subprocess_exec(
        *prefix,
        sys.executable,
        *PYTHON_FLAGS,
        "-c",
        BOOTSTRAP,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    return LocalChannel(process)
