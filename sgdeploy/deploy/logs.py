"""`logs`: what the processes of a deployment have written, from all hosts at once, in the order of time.

Each host sends its own lines in order. The history of all of them is merged exactly, in memory that does not depend on
the logs; what comes later is put into order as far as it comes within a moment. Nothing is changed on any host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

from sgdeploy.deploy.events import Note, Tell
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.hostlogs import HostLogs, LogLine, LogsOptions, Show
from sgdeploy.errors import HostFault, RemoteError
from sgdeploy.plan.model import Plan, Process
from sgdeploy.plan.selector import selected
from sgdeploy.remote.base import Connector
from sgdeploy.remote.waits import bounded, stop, together
from sgdeploy.words import name_list, plural

BATCH = 200
"""Lines that are shown at once at most."""
MOMENT = 0.3
"""Seconds for which new lines wait for older ones of other hosts."""
IDLE = 1.0
"""Seconds without a new line after which it is asked whether anybody still reads."""


async def logs(plan: Plan, connector: Connector, show: Show, tell: Tell, options: LogsOptions) -> None:
    """Show logs.

    Args:
        plan: of the deployment.
        connector: opens the hosts.
        show: shows lines; as long as it does not return, nothing more is fetched.
        tell: hears what is missing.
        options: what to show.

    Raises:
        UsageError: a selector means nothing.
        RemoteError: hosts could not be reached or asked, or were lost; what the others have was shown.
    """
    chosen = selected(plan, options.only)
    names = {process.host for process in chosen}
    try:
        opened = await connector.open_all(tuple(host for host in plan.hosts if host.host in names))
        if not opened.sessions:
            raise RemoteError("no host could be reached", opened.faults)
        fleet = Fleet(opened.sessions)
        await fleet.compare_clocks()
        reading = Reading(fleet, chosen, tell, options)
        for fault in opened.faults:
            reading.miss(fault)
        await reading.run(show)
        if reading.faults:
            count = f"{len(reading.faults)} of {plural(len(names), 'host')}"
            raise RemoteError(f"logs of {count} are not among these, or end too early", reading.faults)
    finally:
        await connector.close_all()


class Reading:
    """The logs of all hosts, put together.

    Attributes:
        faults: hosts that are missing.
    """

    def __init__(self, fleet: Fleet, chosen: Sequence[Process], tell: Tell, options: LogsOptions) -> None:
        """Take whom to ask for what."""
        self.faults: list[HostFault] = []
        self._tell = tell
        self._follow = options.follow
        self._selective = options.grep is not None or options.since is not None
        self._chosen = len(chosen)
        self._found = False
        self._hosts = [
            HostLogs(session, [p for p in chosen if p.host == name], fleet.clock_offsets.get(name, 0.0), options)
            for name, session in fleet.sessions.items()
        ]

    def miss(self, fault: HostFault) -> None:
        """Keep what is wrong with a host; who follows hears it at once, since there may be no end."""
        self.faults.append(fault)
        if self._follow:
            self._tell(Note(f"its log lines are missing: {fault.reason}", "warning", (fault.host,), fault.hint))

    async def run(self, show: Show) -> None:
        """Show the history, then what comes, until the hosts have no more or nobody reads."""
        reads = await self._history(show)
        if reads:
            self._say_what_is_missing()
        if reads and self._follow:
            await self._news(show)

    async def _history(self, show: Show) -> bool:
        """Merge: the oldest of the first lines of all hosts comes next. Of equal ones, the first host's."""
        firsts = await together(*(self._next(host) for host in self._hosts))
        heads = [(first[0], number, first[1]) for number, first in enumerate(firsts) if first is not None]
        heapify(heads)
        batch: list[LogLine] = []
        while heads:
            _, number, line = heads[0]
            self._found = True
            batch.append(line)
            following = await self._next(self._hosts[number])
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following[0], number, following[1]))
            if len(batch) >= BATCH:
                if not await show(batch):
                    return False
                batch = []
        return await show(batch)

    async def _next(self, host: HostLogs) -> tuple[float, LogLine] | None:
        found = await host.next()
        if found is None and host.fault is not None:
            self.miss(host.fault)
        return found

    def _say_what_is_missing(self) -> None:
        why: dict[str, list[str]] = {}
        for host in self._hosts:
            for process, reason in host.missing.items():
                why.setdefault(reason, []).append(process.partition("/")[2])
        for reason, processes in why.items():
            self._tell(Note(f"nothing of {name_list(processes)}: {reason}"))
        searched = self._chosen - sum(map(len, why.values()))
        if self._selective and not self._found and not self.faults and searched:
            self._tell(Note(f"no line matches ({plural(searched, 'log')} searched)"))

    async def _news(self, show: Show) -> None:
        arrived: asyncio.Queue[list[LogLine]] = asyncio.Queue(maxsize=len(self._hosts))
        listening = asyncio.ensure_future(together(*(self._listen(host, arrived) for host in self._hosts)))
        try:
            while not (listening.done() and arrived.empty()):
                lines = await _within(arrived, IDLE)
                if lines:
                    await asyncio.sleep(MOMENT)
                    while not arrived.empty():
                        lines += arrived.get_nowait()
                    lines.sort(key=lambda line: line.time or 0.0)
                if not await show(lines):
                    return
            await listening
        finally:
            await stop(listening)

    async def _listen(self, host: HostLogs, arrived: asyncio.Queue[list[LogLine]]) -> None:
        if host.fault is not None:
            return
        async for lines in host.news():
            await arrived.put(lines)
        if host.fault is not None:
            self.miss(host.fault)


async def _within(arrived: asyncio.Queue[list[LogLine]], seconds: float) -> list[LogLine]:
    """Give what arrives within a time; nothing where nothing does."""
    try:
        return list(await bounded(arrived.get(), seconds))
    except asyncio.TimeoutError:
        return []
