"""The router's view of its workers: a deployment is ready only when it counts every planned one as healthy.

Facts (sglang-router 0.3.2): its own /health says 200 from the first moment, with no worker at all; /readiness says 200
as soon as one prefill and one decode instance are there, however many are missing; /workers lists what is registered,
with ``is_healthy``. It tries a worker until the start-up limit, with a limit of 2 s three times within 4 s, then
never again. POST /workers begins anew and gives an id, by which GET tells how the attempt goes: ``job_status`` is
``pending``, ``processing``, or ``failed`` with a message. A worker that is added twice is listed once.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from sgdeploy.deploy.buckets import WORKERS, Ask, Buckets, addition, by_buckets
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
UNKNOWN = "not registered"
UNDER_WAY = frozenset({"pending", "processing"})
"""What a router says of an attempt that it still makes."""


def missing_workers(planned: Collection[Worker], answer: Mapping[str, object]) -> dict[Worker, str]:
    """Hold the router's /workers against the plan; give what is wrong with each worker that does not count."""
    listed = answer.get("workers")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    healthy = {str(row.get("url")).rstrip("/"): bool(row.get("is_healthy")) for row in rows}
    wrong = {}
    for worker in planned:
        if worker.url.rstrip("/") not in healthy:
            wrong[worker] = UNKNOWN
        elif not healthy[worker.url.rstrip("/")]:
            wrong[worker] = "registered, but not healthy"
    return wrong


async def workers_counted(
    fleet: Fleet, router: Process, door: FrontDoor, api_key: str | None, tell: Tell, *, stall: float = LIMIT
) -> None:
    """Wait until the router counts every planned worker as healthy; add those that it gave up; put buckets in order.

    Args:
        fleet: the open hosts.
        router: its process.
        door: whom it must know.
        api_key: the key that it asks for, or None.
        tell: hears of workers that are added or moved.
        stall: seconds that the operator lets pass without progress; the router gets no longer, nor a minute.

    Raises:
        StartupError: it does not, within its limit; names each worker and what the router says of it.
    """
    ask = _Asker(fleet, router, api_key)
    limit = min(LIMIT, max(stall, 1.2 * LATE))
    begin = time.monotonic()
    additions = _Additions(ask, router, tell)
    while True:
        answer, said = await ask("GET", WORKERS, None)
        wrong = missing_workers(door.workers, answer)
        waited = time.monotonic() - begin
        if not wrong:
            break
        if waited > limit:
            raise _not_counted(router, {**wrong, **additions.failures(wrong)}, said, waited)
        if waited > LATE:
            await additions.go_on([worker for worker, why in wrong.items() if why == UNKNOWN])
        await asyncio.sleep(PAUSE)
    if by_buckets(router):
        await Buckets(ask, router, door, tell).arrange()


def _not_counted(router: Process, wrong: Mapping[Worker, str], said: str, waited: float) -> StartupError:
    what = "; ".join(f"{worker.role} {worker.url}: {why}" for worker, why in wrong.items())
    reason = f"it does not count every worker as healthy after {waited:.0f} s: {what}{said}"
    return StartupError(
        "the router is up, but not all of its workers are",
        [ProcessFault(router.id, router.host, reason, log=router.log)],
        hint="ask those workers on the router's host: `curl --noproxy '*' URL/health`; the router's log says why",
    )


@dataclass(frozen=True)
class _Additions:
    """Workers that are added to a router which gave them up, again after each attempt that failed.

    Attributes:
        ask: asks the router.
        router: its process.
        tell: hears of each worker once.
        ids: of the workers that were added, as the router gives them.
        said: what the router said of the last attempt that failed, by URL.
    """

    ask: Ask
    router: Process
    tell: Tell
    ids: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    async def go_on(self, unknown: Sequence[Worker]) -> None:
        """Add those that are new here; of the others those whose last attempt is over."""
        for worker in unknown:
            if worker.url not in self.ids:
                message = f"the router does not know {worker.url}: it is added"
                self.tell(Note(message, "warning", (self.router.host,)))
            elif not await self._over(worker):
                continue
            answer, _ = await self.ask("POST", WORKERS, addition(worker))
            self.ids[worker.url] = str(answer.get("worker_id", ""))

    async def _over(self, worker: Worker) -> bool:
        """Tell whether the last attempt is over, and keep what the router says of one that failed."""
        answer, _ = await self.ask("GET", f"{WORKERS}/{self.ids[worker.url]}", None)
        job = answer.get("job_status")
        if not isinstance(job, dict):
            return True  # it knows of none, and one too many does no harm
        if job.get("status") == "failed":
            self.said[worker.url] = str(job.get("message"))
        return job.get("status") not in UNDER_WAY

    def failures(self, wrong: Mapping[Worker, str]) -> dict[Worker, str]:
        """Give those that stayed unknown, with the router's reason."""
        told = {worker: self.said.get(worker.url) for worker, why in wrong.items() if why == UNKNOWN}
        return {worker: f"{UNKNOWN}; the router says: {text}" for worker, text in told.items() if text}


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
        except (ValueError, RecursionError):
            return {}, f" ({path} gives no JSON)"
        return (parsed, "") if isinstance(parsed, dict) else ({}, f" ({path} gives no object)")
