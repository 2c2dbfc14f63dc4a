"""Running a use case: one event loop, and what Ctrl-C means to it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import TYPE_CHECKING, TypeVar

from sgdeploy.errors import CancelledRunError

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.console.console import Console

T = TypeVar("T")
INTERRUPTED = 130


def run(desk: Desk, console: Console, work: Coroutine[None, None, T], *, endless: bool = False) -> T:
    """Run a use case to its end.

    The first Ctrl-C (or SIGTERM, or the end of the terminal) cancels it, so that it frees its lock and says what runs;
    the second leaves at once.

    Args:
        desk: of this run of the program.
        console: hears of the interruption.
        work: the use case.
        endless: an interruption is how it is meant to end, and no news.

    Raises:
        CancelledRunError: interrupted, where the use case had nothing of its own to say about it.
        SgdeployError: what the use case raised.
    """
    return asyncio.run(_interruptible(desk, console, work, endless=endless))


async def _interruptible(desk: Desk, console: Console, work: Coroutine[None, None, T], *, endless: bool) -> T:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if interrupted:
            console.close()
            desk.finish()
            os._exit(INTERRUPTED)
        interrupted = True
        if not endless:
            console.say("interrupted: ending in an orderly way; Ctrl-C again leaves at once")
        task.cancel()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup means that the command outlives its terminal
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, interrupt)
    try:
        return await task
    except asyncio.CancelledError as cancelled:
        raise CancelledRunError("interrupted; nothing was started or stopped by this command") from cancelled
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
