"""Which prefill served a prompt: the router counts the answers of each worker, and shows the counts in its metrics.

Fact (sglang-router 0.3.2): ``smg_worker_cb_outcomes_total{worker="URL",outcome="success"}`` grows by one for the
prefill and for the decode of each request that was answered, streamed or not; it counts no health checks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from itertools import pairwise

from sgdeploy.deploy.fleet import Fleet
from sgdeploy.plan.model import Plan, Process
from sgdeploy.remote.base import Json

METRICS = "/metrics"
LIMIT = 5.0

PAUSE = 0.1
TRIES = 10
"""The count may come a moment after the answer's last byte."""

_COUNT = re.compile(r"^smg_worker_cb_outcomes_total\{(?P<labels>[^}]*)\}\s+(?P<count>[0-9.e+]+)", re.MULTILINE)
_WORKER = re.compile(r'worker="([^"]*)"')


@dataclass(frozen=True)
class Tally:
    """Asks a deployment's router how many answers came from each of its prefill instances.

    Attributes:
        fleet: the open hosts.
        plan: what runs on them.
    """

    fleet: Fleet
    plan: Plan

    async def counts(self) -> dict[str, int]:
        """Give answers by unit, in the plan's order; {} where no router tells, or there is nothing to tell apart."""
        router = next((process for process in self.plan.processes if process.role == "router"), None)
        prefills = {worker.url: worker.unit for worker in self.plan.front_door.workers if worker.role == "prefill"}
        if router is None or router.listens.get("metrics") is None or len(prefills) == 1:
            return {}
        answer = await self.fleet.sessions[router.host].call("http", _question(router), limit=LIMIT + 5.0)
        if answer["status"] != HTTPStatus.OK:
            return {}
        found = answers_by_worker(answer["body"])
        return {unit: found.get(url, 0) for url, unit in prefills.items()}

    async def since(self, before: Mapping[str, int]) -> str | None:
        """Give the unit that has answered one request more than before; None where that cannot be told.

        It cannot where the router shows no counts, and where others' requests moved them too.
        """
        for number in range(TRIES if before else 0):
            if number:
                await asyncio.sleep(PAUSE)
            now = await self.counts()
            grown = {unit: count - before.get(unit, 0) for unit, count in now.items() if count != before.get(unit, 0)}
            if grown:
                return next(iter(grown)) if list(grown.values()) == [1] else None
        return None


def answers_by_worker(metrics: str) -> dict[str, int]:
    """Read the counts of good answers by worker URL out of a router's metrics."""
    found: dict[str, int] = {}
    for line in _COUNT.finditer(metrics):
        worker = _WORKER.search(line["labels"])
        if worker is not None and 'outcome="success"' in line["labels"]:
            found[worker[1]] = found.get(worker[1], 0) + int(float(line["count"]))
    return found


def _question(router: Process) -> Json:
    said = dict(pairwise(router.argv)).get("--prometheus-host")
    return {
        "address": router.address if said is None or _is_everywhere(said) else said,
        "port": router.listens["metrics"],
        "path": METRICS,
        "timeout": LIMIT,
    }


def _is_everywhere(address: str) -> bool:
    """Tell whether it means all addresses of the host, as the router's default does."""
    try:
        return ip_address(address.strip("[]")).is_unspecified
    except ValueError:
        return False
