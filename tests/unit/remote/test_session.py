"""Requests and answers, streams, pings and endings of a session to a helper that really runs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

import pytest

from sgdeploy.remote.base import Json, LostHostError, NodeError
from sgdeploy.remote.channel import Ending
from sgdeploy.remote.greeting import Greeting, greet
from sgdeploy.remote.local import open_local
from sgdeploy.remote.session import Session
from tests.unit.remote.conftest import HERE, STUB, Script

HELLO = Greeting({}, b"", b"")


def events(session: Session, op: str, args: Json | None = None, silence: float = 15.0) -> AsyncGenerator[Json, None]:
    return cast("AsyncGenerator[Json, None]", session.stream(op, args, silence=silence))


async def test_an_answer_belongs_to_its_question(session: Session) -> None:
    texts = [f"{k}-ä\n" * 2000 for k in range(100)]
    answers = await asyncio.gather(*(session.call("echo", {"text": text}) for text in texts))
    assert [answer["echo"] for answer in answers] == texts


async def test_the_greeting_is_kept(session: Session) -> None:
    assert session.hello["protocol"] == 1
    assert session.host is HERE


async def test_a_refusal_carries_code_words_and_details(session: Session) -> None:
    with pytest.raises(NodeError, match="3 bytes left") as caught:
        await session.call("refuse")
    assert (caught.value.host, caught.value.code, caught.value.hint) == ("n01", "no-space", "clean up")
    assert caught.value.details == {"path": "/x"}


async def test_a_stream_yields_its_events_in_order_and_ends(session: Session) -> None:
    assert [event["k"] async for event in session.stream("count", {"to": 500})] == list(range(500))


async def test_a_call_to_a_streaming_operation_waits_for_its_result(session: Session) -> None:
    assert (await session.call("count", {"to": 5, "text": "x"}))["echo"] == "x"


async def test_what_is_taken_from_a_window_is_told_once_it_is_dealt_with(session: Session) -> None:
    async with aclosing(events(session, "windowed", {"window": 1})) as stream:
        assert await anext(stream) == {"window": 1}
        await session.call("echo")
        assert await anext(stream) == {"told": "took"}


async def test_leaving_a_stream_cancels_it_on_the_node(session: Session) -> None:
    async with aclosing(events(session, "beat")) as stream:
        async for _ in stream:
            break
    assert (await session.call("echo"))["cancelled"] == [1]


async def test_giving_up_a_call_cancels_it_and_the_session_goes_on(session: Session) -> None:
    with pytest.raises(LostHostError, match=r"no answer to 'never' within 0\.05 s"):
        await session.call("never", limit=0.05)
    assert (await session.call("echo"))["cancelled"] == [1]
    assert session.lost is None


async def test_a_cancelled_caller_cancels_on_the_node(session: Session) -> None:
    task = asyncio.create_task(session.call("never"))
    await session.call("echo")  # by then the first one was sent
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await session.call("echo"))["cancelled"] == [2]


async def test_a_silent_stream_is_a_lost_host(session: Session) -> None:
    with pytest.raises(LostHostError, match=r"nothing was heard of it for 0\.05 s"):
        _ = [event async for event in session.stream("never", silence=0.05)]


async def test_lines_that_are_not_ours_are_passed_over(session: Session) -> None:
    assert await session.call("noise") == {}


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("crash", "the node helper ended with exit code 3: ValueError: broken on purpose"),
        ("kill", "the node helper was killed by SIGKILL"),
    ],
)
async def test_the_end_of_the_helper_ends_all_that_wait(session: Session, op: str, reason: str) -> None:
    async def look_on() -> None:
        async for _ in session.stream("never"):
            pass

    waiting = [asyncio.create_task(session.call("never")), asyncio.create_task(look_on())]
    await session.call("echo")
    with pytest.raises(LostHostError, match=reason):
        await session.call(op)
    ends = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)
    assert [str(end) for end in ends] == [f"n01: {reason}"] * 2
    with pytest.raises(LostHostError, match=reason):
        await session.call("echo")


async def test_a_helper_that_answers_no_ping_is_lost(no_leaks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    del no_leaks
    monkeypatch.setattr("sgdeploy.remote.session.PING_LIMIT", 0.2)
    channel = await open_local()
    session = Session(HERE, channel, await greet(channel, STUB, limit=20), ping_interval=0.05)
    try:
        assert await session.call("echo")
        with pytest.raises(LostHostError, match=r"did not answer a ping for 0\.2 s"):
            await session.call("stop", limit=10)
    finally:
        os.kill(session.hello["pid"], signal.SIGKILL)
        await session.close()


async def test_pings_keep_going_while_the_helper_answers() -> None:
    class Echo(Script):
        pings = 0
        third = asyncio.Event()
        answers: asyncio.Queue[bytes] = asyncio.Queue()

        async def read(self) -> bytes:
            return await self.answers.get()

        def write(self, data: bytes) -> None:
            self.answers.put_nowait(b'{"id":%d,"ok":true,"result":{}}\n' % json.loads(data)["id"])
            self.pings += b'"ping"' in data
            if self.pings == 3:
                self.third.set()

    channel = Echo()
    session = Session(HERE, channel, HELLO, ping_interval=0.01)
    await asyncio.wait_for(channel.third.wait(), 5)
    assert session.lost is None
    await session.close()


async def test_close_ends_the_helper_and_everything_that_waits(no_leaks: None) -> None:
    del no_leaks
    channel = await open_local()
    session = Session(HERE, channel, await greet(channel, STUB, limit=20))
    waiting = asyncio.create_task(session.call("never"))
    await session.call("echo")
    await asyncio.wait_for(session.close(), 5)
    with pytest.raises(LostHostError, match="the session was closed"):
        await waiting
    await asyncio.wait_for(session.close(), 5)


async def test_close_ends_a_helper_that_does_not_want_to(no_leaks: None) -> None:
    del no_leaks
    channel = await open_local()
    session = Session(HERE, channel, await greet(channel, STUB, limit=20))
    with pytest.raises(LostHostError):
        await session.call("stop", limit=0.3)
    await asyncio.wait_for(session.close(), 10)


async def test_the_helper_leads_a_session_of_its_own(session: Session) -> None:
    assert session.hello["sid"] == session.hello["pid"]
    assert session.hello["sid"] != os.getsid(0)


async def test_an_answer_may_come_in_any_pieces() -> None:
    line = b'{"id":1,"ok":true,"result":{"text":"' + b"x" * 300 + b'"}}\n{"id":2,"ok":true,"result":{}}\n'
    session = Session(HERE, Script(*(line[k : k + 1] for k in range(len(line)))), HELLO)
    first, second = await asyncio.wait_for(asyncio.gather(session.call("a"), session.call("b")), 5)
    assert (len(first["text"]), second) == (300, {})
    await session.close()


async def test_what_came_with_the_greeting_is_not_lost() -> None:
    script = Script(ending=Ending(link="the SSH connection broke: test"))
    session = Session(HERE, script, Greeting({}, b'{"id":1,"ok":true,"result":{"a":1}}\n', b""))
    assert await session.call("a") == {"a": 1}
    with pytest.raises(LostHostError, match="the SSH connection broke: test"):
        await session.call("b")
    await session.close()
    assert script.closed


async def test_an_endless_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgdeploy.remote.session.MAX_LINE", 1 << 20)
    session = Session(HERE, Script(*[b"x" * 65536] * 40), HELLO)
    with pytest.raises(LostHostError, match="an answer of more than 1 MiB"):
        await session.call("a")
    await session.close()
