"""Whole commands on hosts that are loopback addresses of this machine, with the simulated engine; no root, no sshd."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.kit import Ground


@pytest.fixture
def ground(tmp_path: Path, no_leaks: None) -> Iterator[Ground]:
    """Give a ground of its own to the test: a network below 127, and a state folder; take down what it leaves."""
    del no_leaks
    made = Ground(tmp_path, f"127.{10 + secrets.randbelow(240)}.{1 + secrets.randbelow(250)}")
    try:
        yield made
    finally:
        made.clear()
