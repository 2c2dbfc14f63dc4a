"""Jump hosts: each is one connection, opened once and shared by all hosts behind it, under the same host key rules."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import asyncssh

from sgdeploy.remote.ssh import Evidence, Limits, dial, hang_up
from sgdeploy.remote.target import parse_hop, resolve

if TYPE_CHECKING:
    from pathlib import Path

    from sgdeploy.remote.hostkeys import KnownHosts
    from sgdeploy.remote.target import Target


class HopError(Exception):
    """A jump host could not be opened.

    Attributes:
        cause: what was raised.
        evidence: of the hop, ``via`` filled in.
    """

    def __init__(self, cause: Exception, evidence: Evidence) -> None:
        """Keep cause and evidence."""
        super().__init__(str(cause))
        self.cause = cause
        self.evidence = evidence


@dataclass
class Hops:
    """The jump hosts of one connector.

    Attributes:
        config: the user's SSH configuration.
        known_hosts: the rules on host keys, the same as for the hosts behind.
        limits: for each of them.
    """

    config: Path
    known_hosts: KnownHosts
    limits: Limits
    _open: dict[tuple[tuple[str, ...], bool], asyncio.Task[asyncssh.SSHClientConnection]] = field(default_factory=dict)

    async def through(
        self, jumps: tuple[str, ...], *, strict: bool, behind: tuple[str, ...] = ()
    ) -> asyncssh.SSHClientConnection | None:
        """Give the connection to the last of these hosts, None for no jumps; shared, so not the caller's to close.

        Args:
            jumps: in order, as in ``ProxyJump``.
            strict: whether host keys are checked.
            behind: hops that wait for this one, which therefore cannot lead to it.

        Raises:
            HopError: one of them failed.
        """
        if not jumps:
            return None
        key = (jumps, strict)
        task = self._open.get(key)
        if task is None or _is_over(task):
            task = asyncio.create_task(self._dial(jumps, strict=strict, behind=behind), name=f"jump {jumps[-1]}")
            self._open[key] = task
        # One host that gives up must not take the connection from the others.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Close all of them, those that stand behind others first; never raises."""
        tasks = list(reversed(self._open.values()))
        self._open.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and task.exception() is None:
                await hang_up(task.result())

    async def _dial(
        self, jumps: tuple[str, ...], *, strict: bool, behind: tuple[str, ...]
    ) -> asyncssh.SSHClientConnection:
        name = jumps[-1]
        evidence = Evidence(via=name)
        try:
            target = await asyncio.get_running_loop().run_in_executor(None, self._resolve, name)
            evidence.target = target
            # As with ssh, only the first hop's own configuration may lead through further hops. A hop that names
            # itself (a ProxyJump under `Host *`) is reached directly.
            before = jumps[:-1] or tuple(jump for jump in target.jumps if jump not in {name, *behind})
            tunnel = await self.through(before, strict=strict, behind=(*behind, name))
            if strict:
                evidence.trust = await asyncio.get_running_loop().run_in_executor(None, self.known_hosts.trust, target)
            return await dial(target, tunnel=tunnel, limits=self.limits, evidence=evidence)
        except (asyncio.TimeoutError, OSError, asyncssh.Error, ValueError) as error:
            raise HopError(error, evidence) from error

    def _resolve(self, name: str) -> Target:
        hop = parse_hop(name)
        return resolve(hop.host, user=hop.user, port=hop.port, config=self.config)


def _is_over(task: asyncio.Task[asyncssh.SSHClientConnection]) -> bool:
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or task.result().is_closed()
