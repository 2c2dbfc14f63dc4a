"""Lines of logs with the host and the rank that wrote them, written no faster than somebody reads."""

from __future__ import annotations

import json
import select
from collections.abc import Iterator, Sequence
from io import UnsupportedOperation
from itertools import cycle
from typing import TYPE_CHECKING, Any

from sgdeploy.console.text import below, clean

if TYPE_CHECKING:
    from sgdeploy.console.stream import Sink
    from sgdeploy.deploy.hostlogs import LogLine
    from sgdeploy.plan.model import Process

_COLORS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_PIECE = 4096
"""Bytes that a pipe takes at once without making us wait, where it says that it takes any."""
_LONGEST = 4
"""Bytes of a character."""


class LogPrinter:
    """Writes lines of some processes.

    While a reader is slow nothing is written, and whoever calls waits; the rest of the program goes on.
    """

    def __init__(self, out: Sink, processes: Sequence[Process], *, color: bool) -> None:
        """Take where to write, and whose lines are going to come: they are aligned to each other."""
        self._out = out
        self._prefixes = _prefixes(processes, color=color)

    async def text(self, lines: Sequence[LogLine]) -> bool:
        """Write lines behind host and rank; tells whether anybody still reads."""
        return await self.write("".join(f"{self._prefixes[line.process.id]}{clean(line.text)}\n" for line in lines))

    async def objects(self, lines: Sequence[LogLine]) -> bool:
        """Write an object per line, for programs; tells the same."""
        return await self.write("".join(json.dumps(_fields(line)) + "\n" for line in lines))

    async def write(self, text: str) -> bool:
        """Write as the reader reads."""
        for piece in _pieces(self._out.secrets.hide(text)):
            await self._room()
            self._out.write(piece)
            self._out.flush()
        if not text and self._events(select.POLLOUT) & select.POLLERR:
            self._out.gone = True
        return not self._out.gone

    async def _room(self) -> None:
        """Wait until something can be written without waiting; files always have room."""
        if self._out.gone or self._events(select.POLLOUT):
            return
        import asyncio  # not before there is a loop: commands without connections spare themselves its start

        loop = asyncio.get_running_loop()
        free = asyncio.Event()
        loop.add_writer(self._out.fileno(), free.set)
        try:
            await free.wait()
        finally:
            loop.remove_writer(self._out.fileno())

    def _events(self, wanted: int) -> int:
        try:
            descriptor = self._out.fileno()
        except (UnsupportedOperation, ValueError):  # no file: memory, which has room
            return wanted
        poll = select.poll()
        poll.register(descriptor, wanted)
        found = poll.poll(0)
        return found[0][1] if found else 0


def _fields(line: LogLine) -> dict[str, Any]:
    """Give a line for programs."""
    when = None if line.time is None else round(line.time, 3)
    return {"host": line.process.host, "process": line.process.id, "time": when, "line": line.text}


def _prefixes(processes: Sequence[Process], *, color: bool) -> dict[str, str]:
    """Give ``n03 prefill-long/r07 | `` by process; the instance is left out where all are of the same one."""
    names = {process.id: clean(below(process.id, process.host)) for process in processes}
    units = {name.partition("/")[0] for name in names.values()}
    if len(units) == 1 and all("/" in name for name in names.values()):
        names = {ident: name.partition("/")[2] for ident, name in names.items()}
    hosts = {process.id: clean(process.host) for process in processes}
    host_width = max(map(len, hosts.values()), default=0)
    name_width = max(map(len, names.values()), default=0)
    labels = {ident: f"{hosts[ident]:<{host_width}} {names[ident]:<{name_width}} |" for ident in names}
    if not color:
        return {ident: f"{label} " for ident, label in labels.items()}
    colors = cycle(_COLORS)
    return {ident: f"\x1b[{next(colors)}m{label}\x1b[0m " for ident, label in labels.items()}


def _pieces(text: str) -> Iterator[str]:
    """Cut into pieces that a pipe takes at once."""
    size = _PIECE if text.isascii() else _PIECE // _LONGEST
    return (text[begin : begin + size] for begin in range(0, len(text), size))
