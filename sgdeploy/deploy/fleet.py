"""The open hosts of one command, and one way to ask all of them at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sgdeploy.errors import HostFault, RemoteError
from sgdeploy.plan.model import PlanHost
from sgdeploy.remote.base import Connector, Json, LostHostError, NodeError, NodeSession, Opened
from sgdeploy.remote.waits import together
from sgdeploy.words import plural

SAME_CLOCK = 0.5
"""Seconds by which two clocks may seem to differ and still count as one."""

Refusal: TypeAlias = "NodeError | LostHostError"
Arguments: TypeAlias = "Callable[[PlanHost], Json]"


@dataclass(frozen=True)
class Answers:
    """What the hosts said to one question: a result or a refusal for each host that was asked."""

    results: Mapping[str, Json]
    refusals: Mapping[str, Refusal] = field(default_factory=dict)

    @property
    def faults(self) -> tuple[HostFault, ...]:
        """One fault per host that refused or was lost."""
        return tuple(refusal.fault for refusal in self.refusals.values())


class Fleet:
    """Sessions by host name. A host that is lost stays in the fleet; every later question to it is a refusal.

    Attributes:
        sessions: by host name.
        clock_offsets: by how many seconds each host's clock is ahead of ours, once compared.
        taken: by whom the lock of this command was taken, "" while that has not happened; then nothing is to be done.
    """

    def __init__(self, sessions: Mapping[str, NodeSession]) -> None:
        """Take the sessions that could be opened."""
        self.sessions = dict(sessions)
        self.clock_offsets: dict[str, float] = {}
        self.taken = ""

    async def ask(
        self,
        op: str,
        arguments: Arguments,
        *,
        hosts: Iterable[str] | None = None,
        limit: float = 30.0,
    ) -> Answers:
        """Ask all hosts (or the named ones) at the same time; no host waits for another.

        Args:
            op: operation of the node protocol.
            arguments: builds the arguments for a host.
            hosts: names; those without a session are left out.
            limit: seconds that one answer may take.
        """
        wanted = list(self.sessions) if hosts is None else [name for name in hosts if name in self.sessions]
        results: dict[str, Json] = {}
        refusals: dict[str, Refusal] = {}

        async def one(name: str) -> None:
            session = self.sessions[name]
            try:
                results[name] = await session.call(op, arguments(session.host), limit=limit)
            except (NodeError, LostHostError) as refusal:
                refusals[name] = refusal

        await together(*(one(name) for name in wanted))
        order = {name: position for position, name in enumerate(wanted)}
        return Answers(
            dict(sorted(results.items(), key=lambda item: order[item[0]])),
            dict(sorted(refusals.items(), key=lambda item: order[item[0]])),
        )

    async def compare_clocks(self) -> None:
        """Measure how far each host's clock is ahead of ours, in seconds, into ``clock_offsets``.

        An offset that is smaller than what can be measured counts as none: clocks that are kept in step (NTP) differ
        by milliseconds, a busy line by tenths of a second.
        """

        async def one(name: str) -> None:
            sent = time.time()
            try:
                answer = await self.sessions[name].call("ping")
            except (NodeError, LostHostError):
                return
            received = time.time()
            offset = answer["time"] - (sent + received) / 2
            measurable = max(SAME_CLOCK, received - sent)
            self.clock_offsets[name] = offset if abs(offset) > measurable else 0.0

        await together(*(one(name) for name in self.sessions))

    async def open_more(self, connector: Connector, hosts: Sequence[PlanHost]) -> Opened:
        """Open more hosts; gives those that could be opened, and why the others could not."""
        opened = await connector.open_all(hosts)
        self.sessions.update(opened.sessions)
        return opened

    def part(self, hosts: Iterable[str]) -> Fleet:
        """Give some of the hosts."""
        return Fleet({name: self.sessions[name] for name in hosts})

    def has(self, host: str) -> bool:
        """Tell whether a session to the host was opened."""
        return host in self.sessions


async def open_fleet(connector: Connector, hosts: Iterable[PlanHost]) -> Fleet:
    """Open every host or none.

    Raises:
        RemoteError: names each host that could not be reached, with its reason and next step.
    """
    wanted = tuple(hosts)
    opened = await connector.open_all(wanted)
    if opened.faults:
        count = len(opened.faults)
        raise RemoteError(
            f"{count} of {plural(len(wanted), 'host')} could not be reached",
            opened.faults,
            hint="nothing was changed on any host",
        )
    return Fleet(opened.sessions)
