"""Starting the helper through a fresh channel: send it, skip the noise, read what it says of itself."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sgdeploy.remote.channel import KEPT_NOISE, Channel, Ending, last_line
from sgdeploy.remote.waits import bounded

if TYPE_CHECKING:
    from sgdeploy.remote.base import Json

MARK: Final = b"SGDEPLOY-NODE "
NOT_FOUND: Final = 127
MAX_NOISE: Final = 1 << 20
"""So much may a login shell print before the greeting, in bytes; more means that something else answers."""


class NoGreetingError(Exception):
    """The helper never said hello.

    Attributes:
        why: ``silent`` (no greeting in time), ``noise`` (too much of something else), ``ended``.
        noise: last line of what came instead, or "".
        ending: how it ended, for ``ended``.
        seconds: how long we listened, for ``silent``.
    """

    def __init__(self, why: str, noise: bytes, *, ending: Ending | None = None, seconds: float = 0.0) -> None:
        """Keep the evidence."""
        super().__init__(why)
        self.why = why
        self.noise = last_line(noise)
        self.ending = ending or Ending()
        self.seconds = seconds

    @property
    def not_found(self) -> bool:
        """Whether the login shell did not find the program: status 127 by POSIX, other shells only say so."""
        return self.ending.code == NOT_FOUND or "not found" in self.ending.last_words.lower()


@dataclass(frozen=True)
class Greeting:
    """What came first: the greeting's JSON, the bytes that followed it, and the tail of the noise before it."""

    hello: Json
    rest: bytes
    noise: bytes


async def greet(channel: Channel, helper: bytes, *, limit: float) -> Greeting:
    """Send the helper and wait for its greeting.

    Args:
        channel: to the bootstrap.
        helper: what ``packed`` gives.
        limit: longest wait in seconds, login shell included.

    Raises:
        NoGreetingError: see there.
    """
    heard = bytearray()
    try:
        return await bounded(_greet(channel, helper, heard), limit)
    except asyncio.TimeoutError:
        raise NoGreetingError("silent", bytes(heard[-KEPT_NOISE:]), seconds=limit) from None


async def _greet(channel: Channel, helper: bytes, heard: bytearray) -> Greeting:
    channel.write(helper)
    await channel.drain()
    begin = 0
    while True:
        data = await channel.read()
        if not data:
            raise NoGreetingError("ended", bytes(heard[-KEPT_NOISE:]), ending=await channel.ending())
        heard += data
        while (end := heard.find(b"\n", begin)) >= 0:
            hello = _hello(bytes(heard[begin:end]))
            if hello is not None:
                return Greeting(hello, bytes(heard[end + 1 :]), bytes(heard[max(0, begin - KEPT_NOISE) : begin]))
            begin = end + 1
        if len(heard) > MAX_NOISE:
            raise NoGreetingError("noise", bytes(heard[-KEPT_NOISE:]))


def _hello(line: bytes) -> Json | None:
    # A login file may print without a line end (a prompt, an escape sequence), so the mark can stand anywhere.
    at = line.rfind(MARK)
    if at < 0:
        return None
    try:
        hello = json.loads(line[at + len(MARK) :])
    except (ValueError, RecursionError):
        return None
    return hello if isinstance(hello, dict) else None
