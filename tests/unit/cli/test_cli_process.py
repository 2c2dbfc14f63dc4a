"""The program as a process: Ctrl-C, a reader that goes away, a full disk, no home, odd terminals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sgdeploy

LIMIT = 60
WORK = """
import asyncio, sys
from sgdeploy.cli.desk import Desk
from sgdeploy.cli.run import run
from sgdeploy.cli.verdict import Verdict

async def polite():
    print("working", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned up", flush=True)

async def stubborn():
    task = asyncio.ensure_future(asyncio.Event().wait())
    print("working", flush=True)
    while True:
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            print("not yet", flush=True)

desk = Desk.here([])
verdict = Verdict(desk)
with verdict:
    run(desk, desk.console, {work}())
desk.finish()
sys.exit(verdict.code)
"""
CLOSED = "import os, sys; os.close(1); os.close(2); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start Python with our package at hand; whatever still runs at the end of the test is killed."""
    monkeypatch.setenv("PYTHONPATH", str(Path(sgdeploy.__file__).parents[1]))
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, *words], stdout=stdout, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate(timeout=LIMIT)


def working(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_interrupt_lets_the_work_clean_up(start: Start, number: signal.Signals) -> None:
    process = start("-c", WORK.format(work="polite"))
    working(process)
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (130, "cleaned up\n")
    assert err.splitlines() == [
        "interrupted: ending in an orderly way; Ctrl-C again leaves at once",
        "interrupted; nothing was started or stopped by this command",
    ]


def test_nohup_outlives_the_terminal(start: Start) -> None:
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    process = start("-c", ignoring + WORK.format(work="polite"))
    working(process)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (130, "cleaned up\n")
    assert err.count("in an orderly way") == 1


def test_the_second_interrupt_leaves_at_once(start: Start) -> None:
    process = start("-c", WORK.format(work="stubborn"))
    working(process)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "not yet\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 130


def test_a_reader_that_has_gone_makes_no_noise(start: Start) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        process = start("-m", "sgdeploy", "plan", "tiny.yaml", stdout=writer)
    finally:
        os.close(writer)
    _, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err) == (0, "")


def test_a_full_disk_is_an_error_that_is_told(start: Start) -> None:
    with Path("/dev/full").open("w") as full:
        process = start("-m", "sgdeploy", "plan", "tiny.yaml", stdout=full.fileno())
        _, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, err) == (70, "error: the output cannot be written: No space left on device\n")


def test_closed_streams_are_no_fault(start: Start) -> None:
    process = start("-c", CLOSED, "-m", "sgdeploy", "plan", "tiny.yaml")
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_terminal_without_unicode_gets_escapes(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    process = start("-m", "sgdeploy", "validate", "路径.yaml")
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, out) == (2, r"\u8def\u5f84.yaml: not valid" + "\n")
    assert r"\u8def\u5f84.yaml" in err


def test_our_own_fault_is_code_70(start: Start, home: Path) -> None:
    broken = (
        "import sys; sys.modules['sgdeploy.plan.compile'] = None; from sgdeploy.cli.app import main; sys.exit(main())"
    )
    process = start("-c", broken, "plan", "tiny.yaml")
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 70
    assert "error: sgdeploy failed: ModuleNotFoundError" in err
    (report,) = (home / "state" / "sgdeploy" / ".debug").iterdir()
    assert str(report) in err
