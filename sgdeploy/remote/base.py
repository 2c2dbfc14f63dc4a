"""What the rooms above may ask of a host: one session per host, calls and streams by JSON lines.

docs/node-protocol.md lists the operations. A session hides whether the node helper runs behind SSH or as a
subprocess of this machine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from sgdeploy.errors import HostFault, SgdeployError
from sgdeploy.plan.model import PlanHost

Json: TypeAlias = "dict[str, Any]"


class NodeError(SgdeployError):
    """The node helper was reached and said no.

    Attributes:
        host: inventory name.
        code: stable short name (``locked``, ``no-space``, ``denied``, ``hugepages-short``, …).
        details: numbers and paths that belong to it.
    """

    exit_code = 3

    def __init__(
        self, host: str, code: str, message: str, details: Mapping[str, Any], *, hint: str | None = None
    ) -> None:
        """Keep who said it and the evidence."""
        super().__init__(message, hint=hint)
        self.host = host
        self.code = code
        self.details = dict(details)

    @property
    def fault(self) -> HostFault:
        """The same as a host fault."""
        return HostFault(self.host, str(self), self.hint)


class LostHostError(SgdeployError):
    """The connection to a host that once answered is gone (cut, power loss, helper killed, silent too long)."""

    exit_code = 5

    def __init__(self, host: str, reason: str, *, hint: str | None = None) -> None:
        """Keep which host and why we think so."""
        super().__init__(f"{host}: {reason}", hint=hint)
        self.host = host
        self.reason = reason

    @property
    def fault(self) -> HostFault:
        """The same as a host fault."""
        return HostFault(self.host, self.reason, self.hint)


class NodeSession(Protocol):
    """An open line to the node helper of one host. Safe for concurrent calls (they are multiplexed)."""

    @property
    def host(self) -> PlanHost:
        """The host at the other end."""
        ...

    @property
    def hello(self) -> Json:
        """What the helper said of itself when it started: python, user, uid, home, hostname, boot_id, pid."""
        ...

    async def call(self, op: str, args: Mapping[str, Any] | None = None, *, limit: float = 30.0) -> Json:
        """Send one operation and wait for its result.

        Raises:
            NodeError: the helper refused.
            LostHostError: the connection ended or ``limit`` seconds passed without the answer.
        """
        ...

    def stream(self, op: str, args: Mapping[str, Any] | None = None, *, silence: float = 15.0) -> AsyncIterator[Json]:
        """Send one operation and yield its events until it ends; closing the iterator cancels it on the node.

        Raises:
            NodeError, LostHostError: as in ``call``; ``silence`` is the longest time without any event
                (the helper sends heartbeats).
        """
        ...

    async def close(self) -> None:
        """End the helper and the connection; never raises, never waits long. Locks held through it are freed."""
        ...


@dataclass(frozen=True)
class Opened:
    """The outcome of opening many hosts: sessions by host name, and one fault per host that failed."""

    sessions: Mapping[str, NodeSession]
    faults: tuple[HostFault, ...]


class Connector(Protocol):
    """Opens sessions; knows limits, keys and timeouts, so that nobody above does."""

    async def open_all(self, hosts: Sequence[PlanHost]) -> Opened:
        """Open every host, at most a set number at once; one slow or dead host never holds the others up."""
        ...

    async def close_all(self) -> None:
        """Close every session that was opened and is still open."""
        ...
