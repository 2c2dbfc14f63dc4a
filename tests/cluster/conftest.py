"""Tests on hosts made of namespaces: deselected with one line where that is impossible, failed where it is required."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sgdeploy.remote.base import Connector
from sgdeploy.remote.connect import connector
from tests.cluster.deployments import assert_nothing_left, make_as_before
from tests.kit.hosts import Lab, lent, missing
from tests.kit.leave_out import leave_out

REQUIRED = "SGDEPLOY_REQUIRE_CLUSTER"
WHY_NOT = missing()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the cluster tests out where no lab can be made, unless they are required."""
    leave_out(config, items, Path(__file__).parent, WHY_NOT, REQUIRED)


@pytest.fixture(autouse=True)
def _possible() -> None:
    if WHY_NOT:
        pytest.fail(WHY_NOT, pytrace=False)


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Give a fresh lab; ``@pytest.mark.parametrize("lab", [16], indirect=True)`` says how many hosts (3 otherwise).

    A mapping in place of the number has all arguments of ``Lab.create``. Afterwards nothing of it may be left.
    """
    wanted = getattr(request, "param", 3)
    with lent(**wanted) if isinstance(wanted, dict) else lent(wanted) as made:
        yield made


@pytest.fixture(scope="module")
def shared_pair() -> Iterator[Lab]:
    """Give one lab of two hosts to all tests of a module."""
    with lent(2, disk="128m") as made:
        yield made


@pytest.fixture
def pair(shared_pair: Lab) -> Iterator[Lab]:
    """Give the two hosts, and prove after the test that they hold nothing of ours."""
    yield shared_pair
    try:
        assert_nothing_left(shared_pair.hosts)
        assert shared_pair.strays() == []
    finally:
        shutil.rmtree(shared_pair.home / ".local", ignore_errors=True)
        for host in shared_pair.hosts:
            make_as_before(host)


@pytest.fixture
def inside(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Give a lab with this thread as its client: its network, its home."""
    monkeypatch.setenv("HOME", str(lab.home))
    with lab.inside():
        yield lab


@pytest.fixture
async def connectors(inside: Lab) -> AsyncIterator[Callable[..., Connector]]:
    """Give ``connector``, with short bounds; what it opens is closed at the end of the test."""
    del inside
    made: list[Connector] = []

    def make(**options: Any) -> Connector:
        made.append(connector(**{"connect_timeout": 5.0, "greeting_timeout": 10.0, **options}))
        return made[-1]

    yield make
    for each in made:
        await each.close_all()
