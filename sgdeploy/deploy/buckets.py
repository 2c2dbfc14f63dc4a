"""The order of a router's buckets: short prompts are meant for the plan's first prefill, and the router draws lots.

Facts (sglang-router 0.3.2, bucket policy): which prefill is the first bucket follows neither the command line nor the
order of registration; it is the order in which the router's own table holds its workers, by identifiers that it makes
up. /workers lists prefill workers in that order, and a worker that is removed and added again gets a new place, drawn
evenly from the whole table. So whoever stands near an end stays in the way of the other: they have to move in turns.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TypeAlias

from sgdeploy.deploy.events import Note, Tell
from sgdeploy.plan.check_router import OFF, SPLITS_FROM
from sgdeploy.plan.model import FrontDoor, Process, Worker
from sgdeploy.remote.base import Json
from sgdeploy.words import plural

Ask: TypeAlias = "Callable[[str, str, Json | None], Awaitable[tuple[Json, str]]]"
"""Method, path and body of a question to the router → its answer, and what went wrong in words."""

WORKERS = "/workers"
TRIES = 40
"""With two prefill instances that move in turns, two of three tries fail (2/π in the long run), and forty in a row
once in sixty million starts. Would always the same one move, it were one start in forty."""

ABSOLUTE, RELATIVE = "--balance-abs-threshold", "--balance-rel-threshold"
INTERVAL = "--bucket-adjust-interval-secs"
DEFAULTS = {ABSOLUTE: "64", RELATIVE: "1.5", INTERVAL: "5"}
"""The router's own values, where its command line does not say them."""

SETTLED = 15.0
"""Seconds for a worker to leave the router's list, or to come back to it; it answers health within one."""

PAUSE = 0.1


def by_buckets(router: Process) -> bool:
    """Tell whether the router parts prompts by buckets whose order is drawn (grouped routing goes by URL)."""
    said = dict(pairwise(router.argv))
    return said.get("--prefill-policy", said.get("--policy")) == "bucket" and "--prefill-short-count" not in said


def misplaced(planned: Sequence[str], listed: Sequence[str]) -> tuple[str, ...]:
    """Give the workers that stand on the wrong side of another one, those with most such others first."""
    places = [listed.index(url) for url in planned]
    wrong = Counter(
        url
        for one, other in combinations(range(len(planned)), 2)
        if places[one] > places[other]
        for url in (planned[one], planned[other])
    )
    return tuple(url for url, _ in wrong.most_common())


@dataclass(frozen=True)
class Buckets:
    """The prefill workers of a router, to be put in order.

    Attributes:
        ask: asks the router.
        router: its process.
        door: whom it knows, in the order that is meant.
        tell: hears of what was done.
    """

    ask: Ask
    router: Process
    door: FrontDoor
    tell: Tell

    async def arrange(self) -> None:
        """Take workers out and add them again until they stand in the planned order; says so where they never do."""
        planned = {worker.url: worker for worker in self.door.workers if worker.role == "prefill"}
        order = " < ".join(planned)
        moves: Counter[str] = Counter()
        for number in range(TRIES):
            rows = await self._rows()
            if set(planned) - set(rows):
                return  # it does not list all of them any more: the watch over the deployment says why
            wrong = misplaced(list(planned), list(rows))
            if not wrong:
                if number:
                    text = f"put the router's buckets in order ({order}) after {plural(number, 'attempt')}"
                    self.tell(Note(text, "info", (self.router.host,)))
                return
            moved = min(wrong, key=lambda url: moves[url])
            moves[moved] += 1
            await self._again(planned[moved], rows[moved])
        text = f"the router's buckets are not in the planned order ({order}) after {plural(TRIES, 'attempt')}"
        hint = "restart it: sgdeploy down --only router, then sgdeploy up --only router"
        self.tell(Note(text, "warning", (self.router.host,), hint))

    async def _rows(self) -> dict[str, str]:
        """Give the ids of the prefill workers by URL, in the router's order."""
        answer, _ = await self.ask("GET", WORKERS, None)
        listed = answer.get("workers")
        rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
        return {str(row.get("url")): str(row.get("id")) for row in rows if row.get("worker_type") == "prefill"}

    async def _again(self, worker: Worker, identity: str) -> None:
        await self.ask("DELETE", f"{WORKERS}/{identity}", None)
        await self._until(worker.url, listed=False)
        await self.ask("POST", WORKERS, addition(worker))
        await self._until(worker.url, listed=True)

    async def _until(self, url: str, *, listed: bool) -> None:
        for _ in range(round(SETTLED / PAUSE)):
            if (url in await self._rows()) is listed:
                return
            await asyncio.sleep(PAUSE)


def expectation(router: Process, door: FrontDoor) -> str:
    """Say in a sentence or two what a router with these settings does with short and long prompts."""
    said = dict(pairwise(router.argv))
    first, *others = [worker.unit for worker in door.workers if worker.role == "prefill"]
    limit, factor = int(said.get(ABSOLUTE, DEFAULTS[ABSOLUTE])), said.get(RELATIVE, DEFAULTS[RELATIVE])
    interval = said.get(INTERVAL, DEFAULTS[INTERVAL])
    load = f"when the instances differ by more than {limit:,} characters and by the factor {factor} within {interval} s"
    if limit < SPLITS_FROM:
        return (
            f"the router places prompts by load, whatever their length, {load}: one long prompt is enough, and long "
            f"ones land on every instance; `router.bucket.balance_abs_threshold: {OFF}` makes length decide"
        )
    exception = "" if limit >= OFF else f"; {load}, load decides"
    boundary = (
        "The boundary is the length at which the sorted prompts of an interval reach half of their characters, so it"
        if len(others) == 1
        else "The boundaries are taken from the prompts of an interval, so they"
    )
    moves = "moves" if len(others) == 1 else "move"
    return (
        f"every prompt goes to {first} until one interval of {interval} s with traffic is over; then longer ones go to "
        f"{', '.join(others)}. {boundary} {moves} with the traffic{exception}"
    )


def addition(worker: Worker) -> Json:
    """Give the body by which a worker is added to a router."""
    body: Json = {"url": worker.url, "worker_type": worker.role}
    return body if worker.bootstrap is None else {**body, "bootstrap_port": worker.bootstrap}
