"""Show on a deployment that runs that the router parts prompts by length: a burst, one interval, then two prompts.

Facts (sglang-router 0.3.2, load rule off): until the first interval with traffic is over, the first bucket takes every
prompt. Then the boundary is the length at which the sorted prompts of the interval reach half of their characters, so
that after a burst of equal prompts it is their length. The router logs ``After adjusting boundary`` each time it moves.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from sgdeploy.deploy.completion import LONG_PROMPT, PROMPT, NoCompletionError, complete, told
from sgdeploy.deploy.events import Completion, Note, Tell
from sgdeploy.deploy.fleet import Fleet, open_fleet
from sgdeploy.deploy.served import Tally
from sgdeploy.errors import ProcessFault, StartupError
from sgdeploy.plan.model import Plan, Process
from sgdeploy.remote.base import Connector
from sgdeploy.words import plural

BURST = 20
BURST_PROMPT = LONG_PROMPT[:3000]
"""Between the short and the long prompt that follow."""

LIMIT = 30.0
"""Seconds for the boundary to move after a burst: one interval, and the second one where the burst fell in two."""

PAUSE = 0.1

_BOUNDARY = re.compile(r"After adjusting boundary.*?range: \[0, (\d+)\]")


async def part(plan: Plan, connector: Connector, tell: Tell, secrets: Mapping[str, str]) -> None:
    """Send a burst, wait until the boundary has moved to its length, then send a short and a long prompt.

    Raises:
        RemoteError: a host cannot be reached.
        LostHostError, NodeError: a host was lost, or cannot do what it is asked.
        StartupError: a completion fails, the boundary does not move, or both prompts went to the same instance.
    """
    try:
        fleet = await open_fleet(connector, plan.hosts)
        router = next(process for process in plan.processes if process.role == "router")
        show = _Show(fleet, plan, router, tell, secrets)
        try:
            await show.prepare()
            await show.prove()
        except NoCompletionError as error:
            raise show.failure(str(error)) from error
    finally:
        await connector.close_all()


@dataclass(frozen=True)
class _Show:
    """The steps, on open hosts."""

    fleet: Fleet
    plan: Plan
    router: Process
    tell: Tell
    secrets: Mapping[str, str]

    def failure(self, reason: str) -> StartupError:
        """Give the error that names the router."""
        fault = ProcessFault(self.router.id, self.router.host, reason, log=self.router.log)
        return StartupError("prompts do not go apart by length", [fault])

    async def prepare(self) -> None:
        """Send a burst of prompts of one length, and wait until that is the boundary."""
        size = len(BURST_PROMPT)
        burst = f"a burst of {plural(BURST, 'prompt')} of {size:,} characters comes first"
        effect = "the end of the interval puts it where half of their characters lie"
        self.tell(Note(f"the router learns its boundary from traffic, so {burst}; {effect}"))
        offset = (await self._log(None))[1]
        tally = Tally(self.fleet, self.plan)
        before = await tally.counts()
        for _ in range(BURST):
            await complete(self.fleet, self.plan.front_door, self.secrets, BURST_PROMPT)
        await self._boundary(offset, size)
        grown = {unit: count - before.get(unit, 0) for unit, count in (await tally.counts()).items()}
        spread = ", ".join(f"{count} to {unit}" for unit, count in grown.items())
        self.tell(Note(f"the burst went {spread}; now the boundary stands at {size:,} characters"))

    async def prove(self) -> None:
        """Send a short and a long prompt; different instances must have served them."""
        rows = [await told(self.fleet, self.plan, self.secrets, prompt) for prompt in (PROMPT, LONG_PROMPT)]
        for row in rows:
            self.tell(row)
        short, long = (row.prefill for row in rows)
        if short is None or long is None:
            raise self.failure("its metrics do not tell which prefill served which prompt")
        if short == long:
            raise self.failure(f"the short and the long prompt were both served by {short}")
        self.tell(Note(f"{_size(rows[0])} went to {short}, {_size(rows[1])} to {long}"))

    async def _boundary(self, offset: int, size: int) -> None:
        """Wait until the router says that prompts of at most ``size`` characters go to the first bucket."""
        deadline = time.monotonic() + LIMIT
        seen = "none"
        while time.monotonic() < deadline:
            lines, offset = await self._log(offset)
            for found in filter(None, map(_BOUNDARY.search, lines)):
                seen = found[1]
                if int(seen) == size:
                    return
            await asyncio.sleep(PAUSE)
        raise self.failure(
            f"{LIMIT:.0f} s after a burst of prompts of {size} characters its boundary is not there (last seen: {seen})"
        )

    async def _log(self, since: int | None) -> tuple[list[str], int]:
        host = next(host for host in self.plan.hosts if host.host == self.router.host)
        question = {"run_dir": host.run_dir, "ids": [self.router.id], "tail": 1, "since_offset": since}
        answer = await self.fleet.sessions[host.host].call("logs", question)
        found = answer["logs"][self.router.id]
        return found["lines"], found["size"]


def _size(row: Completion) -> str:
    return f"the prompt of {len(row.prompt):,} characters"
