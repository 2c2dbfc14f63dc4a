"""Tests that need more than every machine has: left out with one line where it is missing, failed where required."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def is_required(variable: str) -> bool:
    """Tell whether a variable demands that nothing is left out."""
    return os.environ.get(variable) == "1"


def leave_out(config: pytest.Config, items: list[pytest.Item], here: Path, why: str, variable: str) -> None:
    """Take the tests below a folder out of the run and say so, once.

    Args:
        config: of the run.
        items: what was collected; changed in place.
        here: the folder.
        why: what is missing; "" takes nothing out.
        variable: set to 1, nothing is taken out either, so that the tests can fail.
    """
    out = [item for item in items if here in item.path.parents]
    if not why or is_required(variable) or not out:
        return
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"{len(out)} {here.name} tests left out: {why}. {variable}=1 makes that a failure.")
