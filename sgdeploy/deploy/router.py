"""The router's view of its workers: a deployment is ready only when it counts every planned one as healthy.

Facts (sglang-router 0.3.2): its own /health says 200 from the first moment, with no worker at all; /readiness says 200
as soon as one prefill and one decode instance are there, however many are missing; /workers lists what is registered,
with ``is_healthy``. A worker that came too late for the start-up limit is never tried again and has to be added.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from sgdeploy.deploy.buckets import WORKERS, Buckets, addition, by_buckets
from sgdeploy.deploy.events import Note, Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.errors import ProcessFault, StartupError
from sgdeploy.plan.model import FrontDoor, Process, Worker
from sgdeploy.remote.base import Json

PAUSE = 0.5
LATE = 10.0
"""Seconds that a router gets to register a worker that is up, before we add it (it tries at 0, 1, 3, 6 and 10 s)."""

LIMIT = 60.0
"""Seconds until a router that does not count every worker is called failed; the workers are ready before it starts."""

ANSWER_LIMIT = 10.0


def missing_workers(planned: Collection[Worker], answer: Mapping[str, object]) -> dict[Worker, str]:
    """Hold the router's /workers against the plan; give what is wrong with each worker that does not count."""
    listed = answer.get("workers")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    healthy = {str(row.get("url")).rstrip("/"): bool(row.get("is_healthy")) for row in rows}
    wrong = {}
    for worker in planned:
        if worker.url.rstrip("/") not in healthy:
            wrong[worker] = "not registered"
        elif not healthy[worker.url.rstrip("/")]:
            wrong[worker] = "registered, but not healthy"
    return wrong


async def workers_counted(fleet: Fleet, router: Process, door: FrontDoor, api_key: str | None, tell: Tell) -> None:
    """Wait until the router counts every planned worker as healthy; add those that it gave up; put buckets in order.

    Args:
        fleet: the open hosts.
        router: its process.
        door: whom it must know.
        api_key: the key that it asks for, or None.
        tell: hears of workers that are added or moved.

    Raises:
        StartupError: it does not, within its limit; names each worker and what the router says of it.
    """
    ask = _Asker(fleet, router, api_key)
    begin = time.monotonic()
    added = False
    while True:
        answer, said = await ask("GET", WORKERS, None)
        wrong = missing_workers(door.workers, answer)
        waited = time.monotonic() - begin
        if not wrong:
            break
        if waited > LIMIT:
            raise _not_counted(router, wrong, said)
        if waited > LATE and not added:
            added = True
            for worker in (worker for worker, why in wrong.items() if why == "not registered"):
                tell(Note(f"the router does not know {worker.url}: it is added", "warning", (router.host,)))
                await ask("POST", WORKERS, addition(worker))
        await asyncio.sleep(PAUSE)
    if by_buckets(router):
        await Buckets(ask, router, door, tell).arrange()


def _not_counted(router: Process, wrong: Mapping[Worker, str], said: str) -> StartupError:
    what = "; ".join(f"{worker.role} {worker.url}: {why}" for worker, why in wrong.items())
    reason = f"it does not count every worker as healthy after {LIMIT:.0f} s: {what}{said}"
    return StartupError(
        "the router is up, but not all of its workers are",
        [ProcessFault(router.id, router.host, reason, log=router.log)],
        hint="ask those workers on the router's host: `curl --noproxy '*' URL/health`; the router's log says why",
    )


@dataclass(frozen=True)
class _Asker:
    """Asks a router about its workers, on the router's own host."""

    fleet: Fleet
    router: Process
    api_key: str | None

    async def __call__(self, method: str, path: str, body: Json | None) -> tuple[Json, str]:
        """Give its answer (empty where it gave none) and what went wrong, in words."""
        question: Json = {
            "address": self.router.address,
            "port": self.router.listens["http"],
            "path": path,
            "method": method,
            "body": body,
            "api_key": self.api_key,
            "timeout": ANSWER_LIMIT,
        }
        answer = await self.fleet.sessions[self.router.host].call("http", question, limit=ANSWER_LIMIT + 5.0)
        if answer["status"] not in {HTTPStatus.OK, HTTPStatus.ACCEPTED}:
            return {}, f" ({path} says {answer['status'] or answer['error']})"
        try:
            parsed = json.loads(answer["body"])
        except ValueError:
            return {}, f" ({path} gives no JSON)"
        return (parsed, "") if isinstance(parsed, dict) else ({}, f" ({path} gives no object)")
