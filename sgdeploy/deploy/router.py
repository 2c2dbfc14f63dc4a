"""The router's view of its workers: a deployment is ready only when it counts every planned one as healthy.

Facts (sglang-router 0.3.2): its own /health says 200 from the first moment, with no worker at all; /readiness says 200
as soon as one prefill and one decode instance are there, however many are missing; /workers lists what is registered,
with ``is_healthy``. A worker that came too late for the start-up limit is never tried again and has to be added.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from sgdeploy.deploy.events import Note, Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.errors import ProcessFault, StartupError
from sgdeploy.plan.model import Process
from sgdeploy.remote.base import Json

PAUSE = 0.5
LATE = 10.0
"""Seconds that a router gets to register a worker that is up, before we add it (it tries at 0, 1, 3, 6 and 10 s)."""

LIMIT = 60.0
"""Seconds until a router that does not count every worker is called failed; the workers are ready before it starts."""

ANSWER_LIMIT = 10.0


@dataclass(frozen=True)
class Worker:
    """A worker as the router was told of it.

    Attributes:
        url: ``http://address:port``.
        kind: ``prefill``, ``decode`` or ``regular``.
        bootstrap_port: for prefill workers, where the router was given one.
    """

    url: str
    kind: str
    bootstrap_port: int | None = None


def planned_workers(router: Process) -> tuple[Worker, ...]:
    """Read the workers out of the router's own command line: what it was told is what it must count."""
    return tuple(_workers(list(router.argv)))


def _workers(words: list[str]) -> Iterator[Worker]:
    for index, word in enumerate(words):
        values = _values(words, index + 1)
        if word == "--prefill" and values:
            port = values[1] if len(values) > 1 and values[1].isdigit() else None
            yield Worker(values[0], "prefill", None if port is None else int(port))
        elif word == "--decode" and values:
            yield Worker(values[0], "decode")
        elif word == "--worker-urls":
            yield from (Worker(url, "regular") for url in values)


def _values(words: list[str], begin: int) -> list[str]:
    end = next((i for i in range(begin, len(words)) if words[i].startswith("--")), len(words))
    return words[begin:end]


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


async def workers_counted(fleet: Fleet, router: Process, tell: Tell) -> None:
    """Wait until the router counts every planned worker as healthy; add those that it gave up.

    Raises:
        StartupError: it does not, within its limit; names each worker and what the router says of it.
    """
    planned = planned_workers(router)
    begin = time.monotonic()
    added = False
    while True:
        answer, said = await _ask(fleet, router, "GET", None)
        wrong = missing_workers(planned, answer)
        waited = time.monotonic() - begin
        if not wrong:
            return
        if waited > LIMIT:
            raise _not_counted(router, wrong, said)
        if waited > LATE and not added:
            added = True
            for worker in (worker for worker, why in wrong.items() if why == "not registered"):
                tell(Note(f"the router does not know {worker.url}: it is added", "warning", router.host))
                await _ask(fleet, router, "POST", _addition(worker))
        await asyncio.sleep(PAUSE)


def _not_counted(router: Process, wrong: Mapping[Worker, str], said: str) -> StartupError:
    what = "; ".join(f"{worker.kind} {worker.url}: {why}" for worker, why in wrong.items())
    reason = f"it does not count every worker as healthy after {LIMIT:.0f} s: {what}{said}"
    return StartupError(
        "the router is up, but not all of its workers are",
        [ProcessFault(router.id, router.host, reason, log=router.log)],
        hint="ask those workers on the router's host: `curl --noproxy '*' URL/health`; the router's log says why",
    )


def _addition(worker: Worker) -> Json:
    body: Json = {"url": worker.url, "worker_type": worker.kind}
    return body if worker.bootstrap_port is None else {**body, "bootstrap_port": worker.bootstrap_port}


async def _ask(fleet: Fleet, router: Process, method: str, body: Json | None) -> tuple[Json, str]:
    """Ask the router on its own host; give its answer (empty where it gave none) and what went wrong, in words."""
    question: Json = {
        "address": router.address,
        "port": router.listens["http"],
        "path": "/workers",
        "method": method,
        "body": body,
        "timeout": ANSWER_LIMIT,
    }
    answer = await fleet.sessions[router.host].call("http", question, limit=ANSWER_LIMIT + 5.0)
    if answer["status"] not in {HTTPStatus.OK, HTTPStatus.ACCEPTED}:
        return {}, f" (/workers says {answer['status'] or answer['error']})"
    try:
        parsed = json.loads(answer["body"])
    except ValueError:
        return {}, " (/workers gives no JSON)"
    return (parsed, "") if isinstance(parsed, dict) else ({}, " (/workers gives no object)")
