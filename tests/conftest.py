"""For every test: a home of its own, no settings of the person who runs it, and proof that nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["tests.kit.matrix"]
MARKER = "SGDEPLOY_TEST"
SETTINGS = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "SSH_AUTH_SOCK", "NO_COLOR")
GONE_LIMIT = 5.0


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test an empty home folder, and programs that it starts a mark of this very test."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    for name in os.environ:
        if name in SETTINGS or name.startswith("SGDEPLOY_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv(MARKER, folder.name + f"-{os.getpid()}")
    return folder


@pytest.fixture
def no_leaks(home: Path) -> Iterator[None]:
    """Fail if a program that the test started, or a child of one, still runs five seconds after it; then end it."""
    del home
    yield
    mark = f"{MARKER}={os.environ[MARKER]}".encode()
    deadline = time.monotonic() + GONE_LIMIT
    while (left := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"still running after the test: {left}"


def _marked(mark: bytes) -> dict[int, str]:
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended while we looked
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found
