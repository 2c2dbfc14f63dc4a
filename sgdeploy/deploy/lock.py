"""One writer at a time: a lock on the host of the first leader.

The lock is an ``flock`` held by our node helper on that host. It is taken atomically, and the kernel frees it when the
helper ends: on release, on any error, on Ctrl-C, and also when the controller is killed or its network is cut (the
helper ends when it hears nothing). So no lock can outlive its owner by more than a minute.

Whoever takes a lock from somebody else ends that helper, which tells its controller before. That one then closes all
its connections and does nothing any more on any host.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sgdeploy.deploy.events import Note, Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.options import Owner
from sgdeploy.errors import LockedError
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.remote.base import Json, LostHostError, NodeError
from sgdeploy.remote.waits import stop, together

RELEASE_LIMIT = 5.0
"""Seconds given to a polite release; after that the end of the helper frees the lock anyway."""


FOR_EVER = 30 * 86400.0
"""Seconds: longer than any command."""
AGAIN = 1.0
"""Seconds between two tries to get a lock that another controller holds."""
TAKEN = "lock-taken"


@dataclass(frozen=True)
class Patience:
    """How long to wait for a lock that another controller holds.

    Attributes:
        seconds: the most; 0 for not at all.
        tell: hears for whom we wait.
    """

    seconds: float = 0.0
    tell: Tell | None = None


NONE = Patience()


@asynccontextmanager
async def locked(fleet: Fleet, host: PlanHost, owner: Owner, patience: Patience = NONE) -> AsyncIterator[None]:
    """Hold the deployment's lock for the body of the ``with``.

    Raises:
        LockedError: somebody else holds it, or has taken it from us in the body; says who.
        NodeError: the lock file cannot be made (no right, no space).
    """
    session = fleet.sessions[host.host]
    await _take(fleet, host, owner, patience)
    guarding = asyncio.create_task(_guard(fleet, host), name=f"lock on {host.host}")
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if fleet.taken:
            raise _lost(host, fleet.taken) from error
        raise
    finally:
        await stop(guarding)
        try:
            await session.call("unlock", {"run_dir": host.run_dir}, limit=RELEASE_LIMIT)
        except (NodeError, LostHostError):
            await session.close()


async def _take(fleet: Fleet, host: PlanHost, owner: Owner, patience: Patience) -> None:
    deadline = time.monotonic() + patience.seconds
    told = False
    while True:
        question = {"run_dir": host.run_dir, "owner": {**owner.to_json(), "since": time.time()}}
        try:
            await fleet.sessions[host.host].call("lock", question)
        except NodeError as error:
            if error.code != "locked":
                raise
            holder = error.details.get("owner") or {}
            if time.monotonic() >= deadline:
                raise held_by(host, holder, error.details.get("helper")) from error
            if not told:
                _tell_of_wait(host, holder, patience)
            told = True
            await asyncio.sleep(min(AGAIN, max(0.0, deadline - time.monotonic())))
        else:
            return


async def holder_of(fleet: Fleet, host: PlanHost) -> Json | None:
    """Give what whoever holds the lock on a host wrote into it; None where nobody does, or where it cannot be asked."""
    answers = await fleet.ask("lock_owner", lambda h: {"run_dir": h.run_dir}, hosts=[host.host])
    owner: Json | None = answers.results.get(host.host, {}).get("owner")
    return owner


async def wait_until_free(fleet: Fleet, host: PlanHost, patience: Patience) -> None:
    """Wait until nobody holds a lock, without taking it: what is looked at then is not about to change.

    Where it is still held at the end, whoever tries to take it is told by whom.
    """
    deadline = time.monotonic() + patience.seconds
    told = False
    while fleet.has(host.host) and time.monotonic() < deadline:
        holder = await holder_of(fleet, host)
        if not holder:
            return
        if not told:
            _tell_of_wait(host, holder, patience)
        told = True
        await asyncio.sleep(min(AGAIN, max(0.0, deadline - time.monotonic())))


def _tell_of_wait(host: PlanHost, holder: Json, patience: Patience) -> None:
    if patience.tell is not None:
        what = f"waiting for the lock, at most {patience.seconds:g} s: {describe(holder)} is at work"
        patience.tell(Note(what, hosts=(host.host,)))


async def _guard(fleet: Fleet, host: PlanHost) -> None:
    """Once the lock is taken from us, close every connection: whatever is under way can do nothing more on any host."""
    try:
        await fleet.sessions[host.host].call("lock_hold", {"run_dir": host.run_dir}, limit=FOR_EVER)
    except NodeError as error:
        if error.code == TAKEN:
            fleet.taken = str(error)
            await together(*(session.close() for session in fleet.sessions.values()))
    except LostHostError:
        return  # Whoever works with that host notices it as well.


def _lost(host: PlanHost, taken: str) -> LockedError:
    return LockedError(
        f"the lock on host {host.host} was {taken}; this command has stopped and leaves everything as it is",
        hint="`sgdeploy status` tells how that is",
    )


async def lock_leads(
    stack: AsyncExitStack, fleet: Fleet, plans: Iterable[Plan], owner: Owner, patience: Patience = NONE
) -> set[str]:
    """Hold the locks of several plans of one deployment until the stack ends: a changed profile may have another lead.

    Returns:
        Lead hosts whose lock is not held, since they are not open.

    Raises:
        LockedError, NodeError: as ``locked``.
    """
    leads = {plan.lead_host.host: plan.lead_host for plan in plans}
    for name, host in leads.items():
        if fleet.has(name):
            await stack.enter_async_context(locked(fleet, host, owner, patience))
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
        hint="--lock-wait 10m waits for its end; `sgdeploy lock status` says whether it lives; the lock frees itself "
        "when that command ends, and a minute after its connection is lost",
    )


def describe(owner: Json) -> str:
    """Say who holds a lock: ``root@laptop (pid 12), since 14:03:22, command `sgdeploy up x.yaml` ``."""
    since: Any = owner.get("since")
    try:
        clock = datetime.fromtimestamp(since).astimezone().strftime("%H:%M:%S")
    except (TypeError, ValueError, OverflowError, OSError):  # written by hand: no time, or none that a clock shows
        clock = "?"
    who = f"{owner.get('user', '?')}@{owner.get('host', '?')} (pid {owner.get('pid', '?')})"
    return f"{who}, since {clock}, command `{owner.get('command', '?')}`"
