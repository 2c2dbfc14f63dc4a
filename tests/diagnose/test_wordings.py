"""Other words for the same: older engines, other chips, lines as launchers and containers write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sgdeploy.diagnose.judge import diagnose
from sgdeploy.diagnose.model import ProcessLog

CASES: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "wordings.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", list(CASES))
def test_the_first_cause_is_named(name: str) -> None:
    logs = CASES[name]["logs"]
    first = diagnose(ProcessLog(process, list(enumerate(text.splitlines(), 1))) for process, text in logs.items()).first
    assert (None if first is None else f"{first.rule} {first.process}") == CASES[name]["says"]
