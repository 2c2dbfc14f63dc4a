"""The same script of probes against both engines; whatever differs is listed in differences.yaml with its reason."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, TypeAlias

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from tests.engine.ranks import REAL, SIMULATED, Kind, Ranks
from tests.engine.scenarios import SCENARIOS, Scenario, Story
from tests.engine.stages import Stages
from tests.kit.hosts import Lab

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

LIMIT = 300.0
"""Seconds for one scenario; the longest takes 40 on two idle cores."""

Differences: TypeAlias = "dict[str, tuple[list[str], list[str]]]"


class Listed(BaseModel):
    """A known difference: what either engine shows under a topic, and why that may stay."""

    model_config = ConfigDict(extra="forbid")

    topic: str
    real: list[str]
    simulated: list[str]
    reason: Annotated[str, Field(min_length=20)]


def listed() -> dict[str, list[Listed]]:
    """Read the list: scenario → its differences."""
    text = Path(__file__).with_name("differences.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, list[Listed]]).validate_python(yaml.safe_load(text))


def tell(kind: Kind, lab: Lab, scenario: Scenario, folder: Path, stages: Stages) -> Story:
    """Let one engine go through a scenario; nothing of it is left."""
    ranks = Ranks(kind, lab, folder)
    try:
        with stages.stage(f"conformance: {scenario.__name__}, {kind.name} engine", LIMIT):
            return scenario(ranks)
    finally:
        ranks.clear()


def between(real: Story, simulated: Story) -> Differences:
    """Compare two stories topic by topic."""
    topics = {**real, **simulated}
    pairs = {topic: (real.get(topic, []), simulated.get(topic, [])) for topic in topics}
    return {topic: pair for topic, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_both_engines_tell_the_same_story(
    hosts: Lab, more_hosts: Lab, tmp_path: Path, stages: Stages, scenario: Scenario
) -> None:
    with ThreadPoolExecutor(2) as pool:
        real, simulated = pool.map(
            tell, (REAL, SIMULATED), (hosts, more_hosts), (scenario,) * 2, (tmp_path,) * 2, (stages,) * 2
        )
    found = between(real, simulated)
    known = {entry.topic: (entry.real, entry.simulated) for entry in listed()[scenario.__name__]}
    new = {topic: pair for topic, pair in found.items() if known.get(topic) != pair}
    gone = {topic: pair for topic, pair in known.items() if topic not in found}
    assert (new, gone) == ({}, {}), "differences (real, simulated) that are not listed; listed ones that are no more"


def test_the_list_is_about_the_scenarios_there_are() -> None:
    assert set(listed()) == {scenario.__name__ for scenario in SCENARIOS}
