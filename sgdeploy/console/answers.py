"""Reading what an operator types, without standing in the way of anything else that goes on."""

from __future__ import annotations

import asyncio
import os

LONGEST = 4096


async def line_of(descriptor: int) -> str:
    """Wait for a line on a terminal; "" at its end. Whoever is cancelled meanwhile leaves no thread behind."""
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(descriptor, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, LONGEST).decode("utf-8", "replace")
