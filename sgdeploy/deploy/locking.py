"""`lock status` and `lock release`: who holds the lock of a deployment, whether it lives, and taking it away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sgdeploy.deploy.lock import describe
from sgdeploy.deploy.options import Owner
from sgdeploy.deploy.whereabouts import is_proven_gone
from sgdeploy.errors import LockedError, RemoteError
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Connector, Json, NodeError, NodeSession

ALIVE = 20.0
"""A controller says something every 15 s; silent for longer, it may be gone."""
LIMIT = 30.0


@dataclass(frozen=True)
class LockState:
    """How the lock of a deployment stands.

    Attributes:
        name: of the deployment.
        host: on which the lock is.
        owner: what its holder wrote about itself; None for a free lock.
        helper: pid of the node helper that holds it, on that host.
        silent: seconds since that helper heard of its controller.
        left: the most, in seconds, until it ends by itself if it hears nothing more.
        stopped: it is held by a signal (SIGSTOP), or by a debugger.
        gone: its controller ran on this machine and is proven to have ended.
    """

    name: str
    host: str
    owner: Json | None = None
    helper: int | None = None
    silent: float = 0.0
    left: float = 0.0
    stopped: bool = False
    gone: bool = False

    @property
    def holder(self) -> str:
        """Who holds it, in words."""
        return describe(self.owner or {})

    @property
    def verdict(self) -> str:
        """Whether its controller lives, in words, and what becomes of the lock."""
        if self.owner is None:
            return "nobody is at work"
        if self.gone:
            return "its controller, on this machine, has ended; `sgdeploy lock release` frees the lock"
        if self.stopped:
            return (
                f"its helper (pid {self.helper}) is stopped and cannot end by itself; `sgdeploy lock release` ends it "
                "once it has heard nothing for a minute"
            )
        if self.silent <= ALIVE:
            return f"its controller was heard {self.silent:.0f} s ago: it is at work"
        return (
            f"its controller was heard {self.silent:.0f} s ago and may be gone: the lock frees itself in at most "
            f"{self.left:.0f} s; `sgdeploy lock release --force` frees it now"
        )

    def to_json(self) -> dict[str, Any]:
        """Give it for programs."""
        return {**vars(self), "verdict": self.verdict}


async def lock_state(plan: Plan, connector: Connector) -> LockState:
    """Look at the lock of a deployment; nothing is changed.

    Raises:
        RemoteError: the host that has the lock cannot be reached or asked.
    """
    try:
        return await _look(plan, await _open(plan, connector))
    finally:
        await connector.close_all()


async def release_lock(plan: Plan, connector: Connector, owner: Owner, *, force: bool) -> LockState:
    """Take the lock from whoever holds it, by ending the helper that holds it; gives how it stood before.

    Whoever lost it is told, closes its connections and does nothing more on any host. What it started goes on.

    Raises:
        LockedError: the holder may live, and it is not forced.
        RemoteError: the host that has the lock cannot be reached or asked.
    """
    try:
        session = await _open(plan, connector)
        before = await _look(plan, session)
        if before.owner is None:
            return before
        question = {"run_dir": plan.lead_host.run_dir, "by": f"released by {owner}", "force": force or before.gone}
        try:
            await session.call("lock_release", question, limit=LIMIT)
        except NodeError as error:
            raise _refused(before, error) from error
        return before
    finally:
        await connector.close_all()


def _refused(before: LockState, error: NodeError) -> LockedError:
    if error.code != "lock-alive":
        return LockedError(f"the lock on host {before.host} could not be freed: {error}", hint=error.hint)
    return LockedError(
        f"{before.holder} holds the lock on host {before.host}: {before.verdict}",
        hint="--force takes it all the same: that command then stops and leaves everything as it is",
    )


async def _open(plan: Plan, connector: Connector) -> NodeSession:
    host = plan.lead_host
    opened = await connector.open_all((host,))
    if opened.faults:
        raise RemoteError("the host that has the lock could not be reached", opened.faults)
    return opened.sessions[host.host]


async def _look(plan: Plan, session: NodeSession) -> LockState:
    host = plan.lead_host
    found = (await session.call("lock_state", {"run_dir": host.run_dir}))["held"]
    if found is None:
        return LockState(plan.name, host.host)
    return LockState(
        name=plan.name,
        host=host.host,
        owner=found["owner"],
        helper=found["helper"],
        silent=found["silent"],
        left=found["left"],
        stopped=found["stopped"],
        gone=is_proven_gone(found["owner"]),
    )
