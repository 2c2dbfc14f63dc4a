"""Bounded waits lose neither a cancellation nor what was opened."""

from __future__ import annotations

import asyncio
import time

import pytest

from sgdeploy.remote.waits import STILL, bounded, to_the_end, together, within


async def soon(value: str) -> str:
    await asyncio.sleep(0)
    return value


async def never() -> str:
    await asyncio.Event().wait()
    return ""


async def stubborn(done: list[str]) -> str:
    """Give a result although it was cancelled."""
    try:
        await never()
    except asyncio.CancelledError:
        done.append("opened")
    return "late"


async def fail() -> str:
    await asyncio.sleep(0)
    message = "broken"
    raise ValueError(message)


async def test_a_bound_that_ran_out_while_we_stood_still_begins_anew() -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, time.sleep, STILL + 0.5)  # as Ctrl-Z and `fg`
    came = asyncio.Event()
    loop.call_later(0.3, lambda: loop.call_later(0.05, came.set))  # read only some turns of the loop later
    assert await bounded(came.wait(), 0.2)
    with pytest.raises(asyncio.TimeoutError):
        await bounded(never(), 0.2)


async def test_a_result_in_time() -> None:
    assert await bounded(soon("x"), 5) == "x"


async def test_an_error_in_time() -> None:
    with pytest.raises(ValueError, match="broken"):
        await bounded(fail(), 5)


@pytest.mark.parametrize("seconds", [0.01, 0.0, -1.0])
async def test_the_bound(seconds: float) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await bounded(never(), seconds)


async def test_a_result_at_the_very_end_is_taken() -> None:
    assert await bounded(stubborn([]), 0.01) == "late"


async def test_cancelling_while_a_result_appears_undoes_it_and_is_not_lost() -> None:
    done: list[str] = []

    async def undo(value: str) -> None:
        done.append(f"closed {value}")

    task = asyncio.create_task(bounded(stubborn(done), 5, undo=undo))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["opened", "closed late"]


async def test_cancelling_when_the_result_is_ready_is_not_lost() -> None:
    gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    closed: list[str] = []

    waiting = asyncio.Event()

    async def wait() -> str:
        waiting.set()
        return await gate

    async def undo(value: str) -> None:
        closed.append(value)

    task = asyncio.create_task(bounded(wait(), 5, undo=undo))
    await waiting.wait()
    gate.set_result("connection")
    await asyncio.sleep(0)  # the inner task ends in this turn; the outer one is woken in the next
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["connection"]


async def test_within_tells_whether_all_were_over() -> None:
    assert await within(5, soon("a"), soon("b"))
    assert not await within(0.01, soon("a"), never())
    assert len(asyncio.all_tasks()) <= 2


async def slow_to_stop(done: list[str]) -> str:
    """Need a few turns to end after a cancellation, as whoever closes something does."""
    try:
        return await never()
    finally:
        for _ in range(5):
            await asyncio.sleep(0)
        done.append("ended")


async def test_together_gives_results_in_order() -> None:
    assert await together(soon("a"), soon("b")) == ["a", "b"]
    assert await together() == []


async def test_together_waits_for_all_when_one_fails() -> None:
    done: list[str] = []

    async def later() -> str:
        await asyncio.sleep(0.01)
        done.append("ended")
        return ""

    with pytest.raises(ValueError, match="broken"):
        await together(fail(), later())
    assert done == ["ended"]


async def test_together_waits_for_all_when_it_is_cancelled() -> None:
    done: list[str] = []
    task = asyncio.create_task(together(never(), slow_to_stop(done), slow_to_stop(done)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["ended", "ended"]


async def test_a_cancellation_waits_for_the_end() -> None:
    gate, done = asyncio.Event(), []

    async def clean_up() -> None:
        await gate.wait()
        done.append("clean")

    task = asyncio.create_task(to_the_end(clean_up()))
    for _ in range(2):
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["clean"]


async def test_what_fails_at_the_end_counts_more_than_the_cancellation() -> None:
    task = asyncio.create_task(to_the_end(fail()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(ValueError, match="broken"):
        await task
    assert await to_the_end(soon("x")) == "x"
