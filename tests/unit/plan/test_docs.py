"""The documents of this room say what the code does: every field, setting, flag and variable is in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sgdeploy.plan.model import FrontDoor, Limits, Plan, PlanHost, Process
from sgdeploy.platforms.kunpeng_920f import KunpengSettings, numbers
from sgdeploy.platforms.kunpeng_920f.settings import Layout
from tests.unit.plan.conftest import KUNPENG, Compile

DOCS = Path(__file__).resolve().parents[3] / "docs"
CONTRACT = (DOCS / "plan-contract.md").read_text(encoding="utf-8")
PLATFORM = (DOCS / "platforms" / "kunpeng-920f.md").read_text(encoding="utf-8")


def block(text: str, language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_of_the_contract_has_every_field_in_the_order_of_the_output(compiled: Compile) -> None:
    example = json.loads(block(CONTRACT, "json"))
    real = compiled(KUNPENG).plan.to_json()
    assert list(example) == list(real)
    for part, model in (("hosts", PlanHost), ("processes", Process)):
        assert set(example[part][0]) == set(model.model_fields) == set(real[part][0])
    assert set(example["front_door"]) == set(FrontDoor.model_fields)
    assert set(example["limits"]) == set(Limits.model_fields)


@pytest.mark.parametrize("model", [Plan, PlanHost, Process])
def test_every_field_of_the_contract_is_explained(model: type[Plan | PlanHost | Process]) -> None:
    named = set(re.findall(r"`(\w+)`", CONTRACT))
    assert set(model.model_fields) - named <= {"hosts", "processes"}


def test_the_platform_page_names_every_setting_flag_and_variable(compiled: Compile) -> None:
    named = set(re.findall(r"`([\w-]+)(?::[^`]*)?`", PLATFORM))
    rank = compiled(KUNPENG).plan.processes[0]
    assert set(KunpengSettings.model_fields) <= named
    assert set(Layout.model_fields) <= named
    assert set(numbers.FLAGS) | set(numbers.MTP_FLAGS) | set(numbers.ROLE_FLAGS["native"]) <= named
    assert set(rank.env) - {"SPT_NOENV"} <= named
    assert set(rank.env_prepend) <= named


def test_the_profile_on_the_platform_page_plans(compiled: Compile) -> None:
    found = compiled(block(PLATFORM, "yaml"))
    assert found.warnings == ()
    assert len(found.plan.processes) == 64
