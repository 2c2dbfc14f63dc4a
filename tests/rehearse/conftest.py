"""Fixtures of the simulated engine's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .kit import READY, Rank, Ranks, ranks_in


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    with ranks_in(tmp_path) as started:
        yield started


@pytest.fixture
def server(ranks: Ranks) -> Rank:
    return ranks.start().sees(READY)
