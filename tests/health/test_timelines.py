"""Each recorded time line gives the expected transitions and verdicts."""

from __future__ import annotations

import pytest

from tests.health.timeline import NAMES, play, read


@pytest.mark.parametrize("name", NAMES)
def test_a_time_line_is_judged_as_expected(name: str) -> None:
    data = read(name)
    expected = [(step["at"], step.get("told", []), step["verdict"]) for step in data["steps"]]
    assert [(step["at"], told, verdict) for step, told, verdict in play(data)] == expected
