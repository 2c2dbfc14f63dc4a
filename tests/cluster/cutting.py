"""Connections that break at a chosen moment of a command: while a host is asked, or when it has just obeyed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sgdeploy.plan.model import PlanHost
from sgdeploy.remote.base import Connector, Json, NodeSession, Opened
from tests.kit.labhost import LabHost


def logins(host: LabHost) -> list[int]:
    """List the sshd processes that have somebody logged in; the one that listens is not among them."""
    return [proc.pid for proc in host.processes() if proc.argv[0].startswith("sshd: root")]


def end_sessions(host: LabHost) -> None:
    """End the connections that its sshd has open, as the kill of a session or a firewall's reset does."""
    for pid in logins(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@dataclass
class Cut:
    """When and how.

    Attributes:
        host: whose connection.
        op: operation of the node protocol.
        when: ``asked``: the question never arrives; ``answered``: the host has obeyed and its answer never arrives; of
            a stream it is the first event that ``counts``.
        how: what breaks it.
        counts: which event of a stream it is.
        done: whether it has happened; it does once.
    """

    host: LabHost
    op: str
    when: Literal["asked", "answered"]
    how: Callable[[LabHost], None] = end_sessions
    counts: Callable[[Json], bool] = bool
    done: bool = False

    def now(self) -> None:
        """Break it."""
        self.done = True
        self.how(self.host)

    def fits(self, host: str, op: str) -> bool:
        """Tell whether the moment has come."""
        return not self.done and (host, op) == (self.host.name, self.op)


@dataclass
class CutSession:
    """A session that breaks as the ``cuts`` say."""

    session: NodeSession
    cuts: Sequence[Cut]

    @property
    def host(self) -> PlanHost:
        """The host at the other end."""
        return self.session.host

    @property
    def hello(self) -> Json:
        """What its helper said first."""
        return self.session.hello

    async def call(self, op: str, args: Mapping[str, Any] | None = None, *, limit: float = 30.0) -> Json:
        """Send one operation, and break if it is the one."""
        cut = self._cut(op)
        if cut is None:
            return await self.session.call(op, args, limit=limit)
        if cut.when == "answered":
            await self.session.call(op, args, limit=limit)
        cut.now()
        return await self.session.call(op if cut.when == "asked" else "ping", args, limit=limit)

    async def stream(
        self, op: str, args: Mapping[str, Any] | None = None, *, silence: float = 15.0
    ) -> AsyncIterator[Json]:
        """Send one operation, and break at the event that counts."""
        async for event in self.session.stream(op, args, silence=silence):
            cut = self._cut(op)
            if cut is not None and cut.counts(event):
                cut.now()
            yield event

    async def close(self) -> None:
        """End the session."""
        await self.session.close()

    def _cut(self, op: str) -> Cut | None:
        return next((cut for cut in self.cuts if cut.fits(self.host.host, op)), None)


@dataclass
class Cutting:
    """A connector whose sessions break."""

    connector: Connector
    cuts: Sequence[Cut]

    async def open_all(self, hosts: Sequence[PlanHost]) -> Opened:
        """Open every host."""
        opened = await self.connector.open_all(hosts)
        return Opened({name: CutSession(it, self.cuts) for name, it in opened.sessions.items()}, opened.faults)

    async def close_all(self) -> None:
        """Close every session."""
        await self.connector.close_all()
