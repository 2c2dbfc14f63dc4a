"""Tests with the real engine: where they run, the hosts they run on, and how long their stages took."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.home import why_not
from tests.engine.stages import Stages
from tests.kit.hosts import Lab, lent
from tests.kit.leave_out import leave_out

REQUIRED = "SGDEPLOY_REQUIRE_ENGINE"
WHY_NOT = why_not()
STAGES = pytest.StashKey[Stages]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take these tests out where the engine cannot run, unless they are required."""
    leave_out(config, items, Path(__file__).parent, WHY_NOT, REQUIRED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell how long each stage took."""
    stages = config.stash.get(STAGES, Stages())
    if stages.rows:
        terminalreporter.section("stages with the real engine")
        for row in stages.rows:
            terminalreporter.write_line(row)


@pytest.fixture(autouse=True)
def _possible() -> None:
    if WHY_NOT:
        pytest.fail(WHY_NOT, pytrace=False)


@pytest.fixture(scope="session")
def stages(pytestconfig: pytest.Config) -> Stages:
    """Give the clock of all stages."""
    return pytestconfig.stash.setdefault(STAGES, Stages())


ROOM = {"disk": "256m", "shm": "2g"}
"""What the hosts of a real engine need."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Lab]:
    """Give two hosts for a whole module; each test leaves them as it found them."""
    with lent(2, **ROOM) as lab:
        yield lab


@pytest.fixture(scope="module")
def more_hosts() -> Iterator[Lab]:
    """Give two more."""
    with lent(2, **ROOM) as lab:
        yield lab
