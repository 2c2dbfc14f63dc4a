"""Waits that lose neither a cancellation, nor what a cancelled task had already opened, nor a task on its way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")

STILL = 1.5
"""Seconds by which a wait must be late to say that we stood still."""


async def bounded(wait: Awaitable[T], seconds: float, *, undo: Callable[[T], Awaitable[None]] | None = None) -> T:
    """Wait for a result, at most so long.

    When the caller is cancelled while the result is ready, ``asyncio.wait_for`` returns it, and the cancellation is
    lost (before Python 3.12); or it drops it, and what was opened stays open (since then). Neither will do here.

    A wait that is over much too late says that we stood still ourselves (Ctrl-Z). What has come meanwhile is not read
    yet then, so the bound begins anew.

    Args:
        wait: what gives the result; it is cancelled, and seen to end, when it is not waited for any longer.
        seconds: the bound.
        undo: closes a result that nobody will receive.

    Raises:
        asyncio.TimeoutError: the bound is over.
    """
    task = asyncio.ensure_future(wait)
    loop = asyncio.get_running_loop()
    try:
        late = STILL
        while not task.done() and late >= STILL:
            end = loop.time() + max(0.0, seconds)
            await asyncio.wait((task,), timeout=max(0.0, seconds))
            late = loop.time() - end
        if not task.done():
            await stop(task)
    except asyncio.CancelledError:
        await stop(task)
        if undo is not None and not task.cancelled() and task.exception() is None:
            await undo(task.result())
        raise
    if task.cancelled():
        raise asyncio.TimeoutError
    return task.result()


async def within(seconds: float, *waits: Coroutine[Any, Any, object]) -> bool:
    """Wait for all of these, at most so long; give up on those that are not over then. Tells whether all were."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    return not late


async def together(*works: Coroutine[Any, Any, T]) -> list[T]:
    """Do all of these at the same time and give their results in order, once every one of them has ended.

    ``asyncio.gather`` as it is goes on at the first that fails, or that is through with being cancelled, while the
    others still run, and use what their caller is about to close.

    Raises:
        Exception: the first failure in order, when all have ended.
    """
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


async def reminding(work: Coroutine[Any, Any, T], every: float, remind: Callable[[], None]) -> T:
    """Wait for a result, and call ``remind`` each time that so many seconds went by without it."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait((task,), timeout=every))[0]:
            remind()
    except asyncio.CancelledError:
        await stop(task)
        raise
    return task.result()


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """See a piece of work through: a cancellation that comes meanwhile is raised after it.

    ``asyncio.shield`` keeps the work going, but raises at once, so that the caller takes away what the work needs.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        cancelled = await _cancelled_while(task) or cancelled
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


async def _cancelled_while(task: asyncio.Task[T]) -> asyncio.CancelledError | None:
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError as error:
        return error
    return None


async def stop(task: asyncio.Task[T]) -> None:
    """Cancel a task and see it end."""
    task.cancel()
    await asyncio.wait((task,))
