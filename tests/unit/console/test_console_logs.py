"""Lines of logs: who wrote them, harmless, and at the pace of whoever reads them."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sgdeploy.console.console import Console
from sgdeploy.console.data import Mode
from sgdeploy.deploy.hostlogs import LogLine
from tests.unit.console.samples import plan, screen


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.TextIOWrapper]]:
    """Give a pipe: the end to read from, and a stream to write to."""
    reading, writing = os.pipe()
    stream = os.fdopen(writing, "w", encoding="utf-8")
    yield reading, stream
    with suppress(OSError):
        stream.close()
    with suppress(OSError):
        os.close(reading)


def line(text: str, number: int = 0, when: float | None = 1.5) -> LogLine:
    """Give a line of a process of the sample plan."""
    return LogLine(plan().processes[number], when, text)


async def test_lines_stand_aligned_behind_host_and_rank() -> None:
    made = screen()
    show = made.console.log_lines(plan().processes)
    assert await show([line("one"), line("\x1b[31mtwo\x07", 3)])
    assert made.out.getvalue() == "n01 r00 | one\nn02 r01 | two\\x07\n"
    assert made.err.getvalue() == ""


async def test_programs_get_an_object_per_line() -> None:
    out = io.StringIO()
    show = Console("json", out=out, err=io.StringIO()).log_lines(plan().processes)
    assert await show([line("one"), line("tw\xf6", 1, None)])
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first == {"host": "n01", "process": plan().processes[0].id, "time": 1.5, "line": "one"}
    assert (second["time"], second["line"]) == (None, "tw\xf6")


async def test_each_process_has_a_colour_on_a_terminal() -> None:
    out = io.StringIO()
    show = Console("plain", out=out, err=io.StringIO(), color=True).log_lines(plan().processes)
    await show([line("one"), line("two", 1)])
    assert out.getvalue().splitlines() == ["\x1b[36mn01 r00 |\x1b[0m one", "\x1b[33mn01 r01 |\x1b[0m two"]


@pytest.mark.parametrize("mode", ["plain", "json"])
async def test_a_slow_reader_holds_up_the_lines_and_nothing_else(
    mode: Mode, pipe: tuple[int, io.TextIOWrapper]
) -> None:
    reading, stream = pipe
    show = Console(mode, out=stream, err=io.StringIO()).log_lines(plan().processes)
    text = "ö" * 50_000
    writing = asyncio.ensure_future(show([line(text), line(text)]))
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.shield(writing), 0.2)
    got = b""
    while not writing.done():
        got += os.read(reading, 10_000)
        await asyncio.sleep(0)
    assert await writing
    stream.close()
    while more := os.read(reading, 10_000):
        got += more
    assert got.count(b"\n") == 2
    if mode == "plain":
        assert got.decode().count("ö") == 100_000


async def test_a_reader_who_has_gone_is_noticed_also_where_there_is_nothing_to_write(
    pipe: tuple[int, io.TextIOWrapper],
) -> None:
    reading, stream = pipe
    show = Console("plain", out=stream, err=io.StringIO()).log_lines(plan().processes)
    assert await show([])
    os.close(reading)
    assert not await show([])
    assert not await show([line("one")])
