"""The real connector: many hosts at once, each by its own kind of connection, each with its own fate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import asyncssh

from sgdeploy.errors import HostFault
from sgdeploy.remote import sudo
from sgdeploy.remote.base import Opened
from sgdeploy.remote.channel import packed_helper
from sgdeploy.remote.explain import MissingPythonError, explain
from sgdeploy.remote.greeting import Greeting, NoGreetingError, greet
from sgdeploy.remote.hops import HopError, Hops
from sgdeploy.remote.hostkeys import KnownHosts
from sgdeploy.remote.local import open_local
from sgdeploy.remote.logins import Login, login
from sgdeploy.remote.session import Session
from sgdeploy.remote.ssh import Evidence, Limits, SshChannel, dial, hang_up, start_helper
from sgdeploy.remote.target import resolve
from sgdeploy.remote.waits import reminding, stop, together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sgdeploy.plan.model import PlanHost
    from sgdeploy.remote.base import Connector

    Slow: TypeAlias = Callable[[Sequence[str], float], None]

PYTHONS: Final = ("python3", "/usr/bin/python3")
SLOT_SECONDS: Final = 2.0
"""A host that takes longer to open gives its place among the simultaneous starts to the next one, and goes on."""

REMIND_SECONDS: Final = 10.0
"""As long as hosts are being opened, it is said so often which of them are not open yet."""

FAILURES: Final = (asyncio.TimeoutError, OSError, asyncssh.Error, ValueError, NoGreetingError, MissingPythonError)


def connector(
    *,
    limit: int = 24,
    connect_timeout: float = 10.0,
    greeting_timeout: float = 30.0,
    keepalive: float = 4.0,
    config: Path | None = None,
    slow: Slow = lambda _hosts, _seconds: None,
) -> Connector:
    """Make the connector of one command; to be closed with ``close_all``.

    Args:
        limit: hosts that are being opened at the same time; more than 16 to 32 gain nothing.
        connect_timeout: seconds for TCP, key exchange and login of one host (and of each jump host).
        greeting_timeout: seconds for the login shell and the helper's first words.
        keepalive: seconds of silence before the far end is asked whether it is there; three unanswered questions are
            a lost host.
        config: the user's SSH configuration, ``~/.ssh/config`` by default.
        slow: hears every ten seconds which hosts are not open yet, and after how many seconds.
    """
    limits = Limits(connect=connect_timeout, greeting=greeting_timeout, keepalive=keepalive)
    path = config if config is not None else Path("~/.ssh/config").expanduser()
    return HostConnector(limit=limit, limits=limits, config=path, slow=slow)


@dataclass
class HostConnector:
    """Opens and remembers one session per host."""

    limit: int
    limits: Limits
    config: Path
    slow: Slow = field(repr=False)
    helper: Callable[[], bytes] = field(default=packed_helper, repr=False)
    _parcel: asyncio.Future[bytes] | None = field(default=None, repr=False)
    _sessions: dict[str, Session] = field(default_factory=dict)
    _known_hosts: KnownHosts = field(default_factory=KnownHosts)
    _hops: Hops = field(init=False)

    def __post_init__(self) -> None:
        """Make the book of jump hosts."""
        self._hops = Hops(self.config, self._known_hosts, self.limits)

    async def open_all(self, hosts: Sequence[PlanHost]) -> Opened:
        """Open every host that is not open yet; one slow or dead host never holds the others up."""
        self._packing()
        places = asyncio.Semaphore(self.limit)
        waiting = dict.fromkeys(host.host for host in hosts)
        begin = asyncio.get_running_loop().time()

        async def one(host: PlanHost) -> Session | HostFault:
            try:
                return await self._place(host, places)
            finally:
                del waiting[host.host]

        def remind() -> None:
            self.slow(tuple(waiting), asyncio.get_running_loop().time() - begin)

        outcomes = await reminding(together(*map(one, hosts)), REMIND_SECONDS, remind)
        return Opened(
            {outcome.host.host: outcome for outcome in outcomes if isinstance(outcome, Session)},
            tuple(outcome for outcome in outcomes if isinstance(outcome, HostFault)),
        )

    async def close_all(self) -> None:
        """Close all sessions at once, then the jump hosts."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await together(*(session.close() for session in sessions))
        await self._hops.close()

    async def _place(self, host: PlanHost, places: asyncio.Semaphore) -> Session | HostFault:
        known = self._sessions.get(host.host)
        if known is not None:
            if known.lost is None:
                return known
            await known.close()
        async with places:
            task = asyncio.create_task(self._open(host), name=f"open {host.host}")
            try:
                await asyncio.wait((task,), timeout=SLOT_SECONDS)
            except asyncio.CancelledError:
                await stop(task)
                raise
        return await task

    def _packing(self) -> asyncio.Future[bytes]:
        """Pack the helper once, in a thread, while the first connections are being made."""
        if self._parcel is None:
            self._parcel = asyncio.get_running_loop().run_in_executor(None, self.helper)
        return asyncio.shield(self._parcel)

    async def _open(self, host: PlanHost) -> Session | HostFault:
        evidence = Evidence()
        try:
            session = await (self._open_local(host) if host.connection == "local" else self._open_ssh(host, evidence))
        except HopError as error:
            return explain(error.cause, host, error.evidence, await _login(error.cause, error.evidence))
        except FAILURES as error:
            return explain(error, host, evidence, await _login(error, evidence))
        self._sessions[host.host] = session
        return session

    async def _open_local(self, host: PlanHost) -> Session:
        channel = await open_local(sudo.PREFIX if host.sudo else ())
        try:
            greeting = await greet(channel, await self._packing(), limit=self.limits.greeting)
        except BaseException:
            await channel.abandon()
            raise
        return Session(host, channel, greeting)

    async def _open_ssh(self, host: PlanHost, evidence: Evidence) -> Session:
        loop = asyncio.get_running_loop()
        target = await loop.run_in_executor(
            None, partial(resolve, host.ssh, user=host.user, port=host.port, config=self.config)
        )
        evidence.target = target
        strict = host.known_hosts == "strict"
        tunnel = await self._hops.through(target.jumps, strict=strict)
        if strict:
            evidence.trust = await loop.run_in_executor(None, self._known_hosts.trust, target)
        connection = await dial(target, tunnel=tunnel, limits=self.limits, evidence=evidence)
        try:
            channel, greeting = await self._start(host, connection, evidence)
        except BaseException:
            await hang_up(connection)
            raise
        return Session(host, channel, greeting)

    async def _start(
        self, host: PlanHost, connection: asyncssh.SSHClientConnection, evidence: Evidence
    ) -> tuple[SshChannel, Greeting]:
        prefix = sudo.PREFIX if host.sudo else ()
        for python in PYTHONS:
            channel = await start_helper(connection, (*prefix, python), limits=self.limits, evidence=evidence)
            try:
                return channel, await greet(channel, await self._packing(), limit=self.limits.greeting)
            except NoGreetingError as error:
                await channel.abandon()
                if not (sudo.lacks(python, error.ending) if host.sudo else error.not_found):
                    raise
        raise MissingPythonError


async def _login(error: Exception, evidence: Evidence) -> Login | None:
    refused = isinstance(error, asyncssh.PermissionDenied)
    return await login(evidence.target) if refused and evidence.target else None
