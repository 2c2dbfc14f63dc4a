"""A home of its own for every test, and the program called in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sgdeploy.cli.app import main


@dataclass(frozen=True)
class Called:
    """How a call ended and what it wrote."""

    code: int
    out: str
    err: str


Call = Callable[..., Called]

PROFILE = """\
version: 1
name: tiny
topology: native
platform: cpu
inventory: hosts.yaml
model: {path: /models/tiny}
engine: {executable: rehearsal, flags: {max-total-tokens: 8192}}
native:
  hosts: all
  parallel: {tp: 2}
"""
INVENTORY = """\
version: 1
groups:
  all:
    - {host: a1, connection: local, address: 127.0.1.1}
    - {host: a2, connection: local, address: 127.0.1.2}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty home; the working folder holds a profile of two local hosts."""
    for name in ("NO_COLOR", "FORCE_COLOR", "_SGDEPLOY_COMPLETE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "tiny.yaml").write_text(PROFILE)
    (work / "hosts.yaml").write_text(INVENTORY)
    monkeypatch.chdir(work)
    return tmp_path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the program with some words."""

    def run(*words: str) -> Called:
        capsys.readouterr()
        code = main(list(words))
        written = capsys.readouterr()
        return Called(code, written.out, written.err)

    return run
