"""A run folder with its helper for each test, and proof that nothing is left afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.deployment import Deployment
from tests.node.wire import Helper, living

GONE_LIMIT = 5.0


def touching(folder: Path) -> dict[int, str]:
    """Give the processes that have to do with a folder: by environment, arguments, or working folder."""
    found: dict[int, str] = {}
    needle = os.fsencode(folder)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended while we looked
            arguments = (entry / "cmdline").read_bytes()
            place = os.fsencode((entry / "cwd").readlink())
            mine = needle in arguments or needle in place or needle in (entry / "environ").read_bytes()
            if mine and living(int(entry.name)):
                found[int(entry.name)] = arguments.replace(b"\0", b" ").decode("utf-8", "replace")
    return found


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a process of the test still lives five seconds after it; then end it."""
    monkeypatch.setenv("NODE_TEST_FOLDER", str(tmp_path))
    yield
    deadline = time.monotonic() + GONE_LIMIT
    while (left := touching(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"still running after the test: {left}"


@pytest.fixture
def helpers(nothing_left: None) -> Iterator[Callable[..., Helper]]:
    """Start helpers that end with the test."""
    del nothing_left
    started: list[Helper] = []

    def start(**arguments: Any) -> Helper:
        helper = Helper(**arguments)
        started.append(helper)
        return helper

    yield start
    for helper in started:
        if helper.process.poll() is None:
            helper.close()


@pytest.fixture
def node(helpers: Callable[..., Helper]) -> Helper:
    """A helper."""
    return helpers()


@pytest.fixture
def deployment(tmp_path: Path, node: Helper) -> Iterator[Deployment]:
    """A deployment on one host; what it started is killed at the end."""
    deployment = Deployment(tmp_path / "demo" / "n01", node)
    yield deployment
    deployment.end()
