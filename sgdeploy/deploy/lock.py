"""One writer at a time: a lock on the host of the first leader.

The lock is an ``flock`` held by our node helper on that host. It is taken atomically, and the kernel frees it when the
helper ends: on release, on any error, on Ctrl-C, and also when the controller is killed or its network is cut (the
helper ends when it hears nothing). So no lock can outlive its owner.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.options import Owner
from sgdeploy.errors import LockedError
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.remote.base import Json, LostHostError, NodeError

RELEASE_LIMIT = 5.0
"""Seconds given to a polite release; after that the end of the helper frees the lock anyway."""


@asynccontextmanager
async def locked(fleet: Fleet, host: PlanHost, owner: Owner) -> AsyncIterator[None]:
    """Hold the deployment's lock for the body of the ``with``.

    Raises:
        LockedError: somebody else holds it; says who, since when and with which command.
        NodeError: the lock file cannot be made (no right, no space).
    """
    session = fleet.sessions[host.host]
    try:
        await session.call("lock", {"run_dir": host.run_dir, "owner": {**owner.to_json(), "since": time.time()}})
    except NodeError as error:
        if error.code == "locked":
            raise held_by(host, error.details.get("owner") or {}, error.details.get("helper")) from error
        raise
    try:
        yield
    finally:
        try:
            await session.call("unlock", {"run_dir": host.run_dir}, limit=RELEASE_LIMIT)
        except (NodeError, LostHostError):
            await session.close()


async def lock_leads(stack: AsyncExitStack, fleet: Fleet, plans: Iterable[Plan], owner: Owner) -> set[str]:
    """Hold the locks of several plans of one deployment until the stack ends: a changed profile may have another lead.

    Returns:
        Lead hosts whose lock is not held, since they are not open.

    Raises:
        LockedError, NodeError: as ``locked``.
    """
    leads = {plan.lead_host.host: plan.lead_host for plan in plans}
    for name, host in leads.items():
        if fleet.has(name):
            await stack.enter_async_context(locked(fleet, host, owner))
    return {name for name in leads if not fleet.has(name)}


def held_by(host: PlanHost, owner: Json, helper: int | None) -> LockedError:
    """Build the message for a deployment that another controller works on.

    Args:
        host: on which the lock is.
        owner: what that controller wrote into it.
        helper: pid of the node helper that holds it for them, where known.
    """
    where = f"lock on host {host.host}" + (f", held by its process {helper}" if helper else "")
    return LockedError(
        f"another sgdeploy works on this deployment: {describe(owner)} ({where})",
        hint="wait until it has ended; the lock frees itself when that command ends, and a minute after its connection "
        "is lost",
    )


def describe(owner: Json) -> str:
    """Say who holds a lock: ``root@laptop (pid 12), since 14:03:22, command `sgdeploy up x.yaml` ``."""
    since = owner.get("since")
    clock = datetime.fromtimestamp(since).astimezone().strftime("%H:%M:%S") if isinstance(since, int | float) else "?"
    who = f"{owner.get('user', '?')}@{owner.get('host', '?')} (pid {owner.get('pid', '?')})"
    return f"{who}, since {clock}, command `{owner.get('command', '?')}`"
