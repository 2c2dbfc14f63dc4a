"""Fixtures of the use cases' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sgdeploy.deploy import router as router_module
from sgdeploy.deploy import up as up_module

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sgdeploy.deploy.events import Tell
    from sgdeploy.deploy.fleet import Fleet
    from sgdeploy.plan.model import Plan


@pytest.fixture
def no_preflight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake hosts have no facts; the preflight has tests of its own."""

    async def nothing(_fleet: Fleet, _plan: Plan, _tell: Tell, _leaving: Mapping[str, Collection[int]]) -> None:
        return None

    monkeypatch.setattr(up_module, "preflight", nothing)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the workers of a fake router no longer than it takes."""
    monkeypatch.setattr(router_module, "PAUSE", 0.01)
    monkeypatch.setattr(router_module, "LIMIT", 0.3)
