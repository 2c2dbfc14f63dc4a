"""One line to one node helper: requests and answers matched by number, streams, pings, and an honest end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

from sgdeploy.remote.base import Json, LostHostError, NodeError
from sgdeploy.remote.waits import bounded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from sgdeploy.plan.model import PlanHost
    from sgdeploy.remote.channel import Channel
    from sgdeploy.remote.greeting import Greeting

PING_INTERVAL: Final = 15.0
PING_LIMIT: Final = 30.0
"""A helper that cannot answer a ping for so long is stopped or starved beyond use."""
MAX_LINE: Final = 256 << 20
"""An answer larger than this is no answer of ours."""


class Session:
    """The real ``NodeSession``: the protocol of docs/node-protocol.md over any channel.

    One task reads and sorts answers by their id, one sends pings. Both end with the session. Must be made inside a
    running event loop.
    """

    def __init__(
        self, host: PlanHost, channel: Channel, greeting: Greeting, *, ping_interval: float = PING_INTERVAL
    ) -> None:
        """Take over a channel whose helper has just said hello."""
        self._host = host
        self._channel = channel
        self._hello = greeting.hello
        self._mailboxes: dict[int, asyncio.Queue[Json | LostHostError]] = {}
        self._next = 1
        self._lost: LostHostError | None = None
        self._draining = asyncio.Lock()
        self._ping_interval = ping_interval
        self._tasks = (
            asyncio.create_task(self._read(greeting.rest), name=f"read {host.host}"),
            asyncio.create_task(self._ping(), name=f"ping {host.host}"),
        )

    @property
    def host(self) -> PlanHost:
        """The host at the other end."""
        return self._host

    @property
    def hello(self) -> Json:
        """What the helper said of itself when it started."""
        return self._hello

    @property
    def lost(self) -> LostHostError | None:
        """Why the session has ended, or None while it is open."""
        return self._lost

    async def call(self, op: str, args: Mapping[str, Any] | None = None, *, limit: float = 30.0) -> Json:
        """Send one operation and wait for its result.

        Raises:
            NodeError: the helper refused.
            LostHostError: the connection ended or ``limit`` seconds passed without the answer.
        """
        with self._request(op, args) as (_, mailbox):
            try:
                return await bounded(self._result(mailbox), limit)
            except asyncio.TimeoutError:
                raise self._loss(f"no answer to {op!r} within {limit:g} s") from None

    async def stream(
        self, op: str, args: Mapping[str, Any] | None = None, *, silence: float = 15.0
    ) -> AsyncIterator[Json]:
        """Send one operation and yield its events until it ends; leaving the iterator cancels it on the node.

        With ``window`` among its arguments, that many events at most are on their way or wait to be taken.

        Raises:
            NodeError: the helper refused, or the operation failed on its way.
            LostHostError: the connection ended, or nothing came for ``silence`` seconds.
        """
        with self._request(op, args) as (number, mailbox):
            sent = False
            while True:
                try:
                    message = await bounded(self._take(mailbox, sent=sent), silence)
                    sent = True
                except asyncio.TimeoutError:
                    raise self._loss(
                        f"nothing was heard of it for {silence:g} s (network, or a host that stands still)"
                    ) from None
                if "event" not in message:
                    self._check(message)
                    return
                yield message["event"]
                if args is not None and "window" in args and self._lost is None:
                    self._post({"op": "took", "target": number})

    async def close(self) -> None:
        """End the helper and the connection; never raises, waits a few seconds at most."""
        self._end(self._loss("the session was closed"))
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self._channel.close(self._hello.get("pid"))

    @contextlib.contextmanager
    def _request(
        self, op: str, args: Mapping[str, Any] | None
    ) -> Iterator[tuple[int, asyncio.Queue[Json | LostHostError]]]:
        if self._lost is not None:
            raise self._loss(self._lost.reason)
        number = self._next
        self._next += 1
        mailbox: asyncio.Queue[Json | LostHostError] = asyncio.Queue()
        self._mailboxes[number] = mailbox
        self._post({**(args or {}), "id": number, "op": op})
        try:
            yield number, mailbox
        finally:
            # The reader drops a mailbox once the answer is in; one that is still there is being abandoned. Nothing
            # is awaited here, so that this also works while the caller is being cancelled.
            if self._mailboxes.pop(number, None) is not None and self._lost is None:
                self._post({"op": "cancel", "target": number})

    async def _result(self, mailbox: asyncio.Queue[Json | LostHostError]) -> Json:
        message = await self._take(mailbox, sent=False)
        while "event" in message:
            message = await self._take(mailbox, sent=True)
        return self._check(message)

    async def _take(self, mailbox: asyncio.Queue[Json | LostHostError], *, sent: bool) -> Json:
        if not sent:
            async with self._draining:  # drain() of asyncio's streams does not bear two callers before Python 3.11
                await self._channel.drain()
        message = await mailbox.get()
        if isinstance(message, LostHostError):
            raise self._loss(message.reason)  # a fresh one each: many tasks may be told of the same loss
        return message

    def _check(self, message: Json) -> Json:
        if message.get("ok"):
            result = message.get("result")
            return result if isinstance(result, dict) else {"result": result}
        error = message.get("error") or {}
        raise NodeError(
            self._host.host,
            str(error.get("code", "unknown")),
            str(error.get("message", "the node helper gave no reason")),
            error.get("details") or {},
            hint=error.get("hint"),
        )

    def _post(self, message: Json) -> None:
        self._channel.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def _read(self, rest: bytes) -> None:
        parts = [rest]
        size = 0
        while size <= MAX_LINE:
            data = parts.pop()
            *lines, tail = data.split(b"\n")
            if lines:
                lines[0] = b"".join([*parts, lines[0]])
                parts, size = [], 0
            for line in lines:
                self._sort(line)
            parts.append(tail)
            size += len(tail)
            if not (data := await self._channel.read()):
                self._end(self._loss(str(await self._channel.ending())))
                return
            parts.append(data)
        self._end(self._loss(f"an answer of more than {MAX_LINE >> 20} MiB; this is not our helper"))

    def _sort(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return  # something else on the node wrote to our stdout; the helper itself writes whole JSON lines only
        if not isinstance(message, dict):
            return
        number = message.get("id")
        mailbox = self._mailboxes.get(number) if isinstance(number, int) else None
        if mailbox is None:
            return  # the answer to something that was given up
        if "event" not in message:
            self._mailboxes.pop(int(number or 0), None)
        mailbox.put_nowait(message)

    async def _ping(self) -> None:
        while self._lost is None:
            await asyncio.sleep(self._ping_interval)
            try:
                await self.call("ping", limit=PING_LIMIT)
            except NodeError:
                continue  # it answered; that is all we want to know
            except LostHostError:
                self._end(self._loss(f"the node helper did not answer a ping for {PING_LIMIT:g} s"))

    def _loss(self, reason: str) -> LostHostError:
        where = "on this machine" if self._host.connection == "local" else f"by `ssh {self._host.ssh}`"
        return LostHostError(self._host.host, reason, hint=f"look at the host {where}; then run the command again")

    def _end(self, loss: LostHostError) -> None:
        """Turn every pending call and stream, and every later one, into the loss. The first reason stays."""
        if self._lost is not None:
            return
        self._lost = loss
        for mailbox in self._mailboxes.values():
            mailbox.put_nowait(loss)
        self._mailboxes.clear()
