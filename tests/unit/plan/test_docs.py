"""The documents of this room say what the code does: every field, setting, flag and variable is in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sgdeploy.plan.check_sizes import PARTITION
from sgdeploy.plan.check_split import AGREE, AGREE_BETTER, AGREE_ENV
from sgdeploy.plan.model import FrontDoor, Limits, Plan, PlanHost, Process, Worker
from sgdeploy.platforms.kunpeng_920f import KunpengSettings, numbers
from sgdeploy.platforms.kunpeng_920f.settings import Layout
from sgdeploy.profile.router_schema import Router
from sgdeploy.profile.topologies import PROFILES, ROLE_KEYS
from tests.unit.plan.conftest import KUNPENG, KUNPENG_PD, Compile

DOCS = Path(__file__).resolve().parents[3] / "docs"
CONTRACT = (DOCS / "plan-contract.md").read_text(encoding="utf-8")
PLATFORM = (DOCS / "platforms" / "kunpeng-920f.md").read_text(encoding="utf-8")


TOPOLOGIES_PAGE = (DOCS / "topologies.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    return found


def block(text: str, language: str) -> str:
    return blocks(text, language)[0]


def test_the_example_of_the_contract_has_every_field_in_the_order_of_the_output(compiled: Compile) -> None:
    example = json.loads(block(CONTRACT, "json"))
    real = compiled(KUNPENG).plan.to_json()
    assert list(example) == list(real)
    for part, model in (("hosts", PlanHost), ("processes", Process)):
        assert set(example[part][0]) == set(model.model_fields) == set(real[part][0])
    assert set(example["front_door"]) == set(FrontDoor.model_fields)
    assert set(example["limits"]) == set(Limits.model_fields)


@pytest.mark.parametrize("model", [Plan, PlanHost, Process, Worker])
def test_every_field_of_the_contract_is_explained(model: type[Plan | PlanHost | Process | Worker]) -> None:
    named = set(re.findall(r"`(\w+)`", CONTRACT))
    assert set(model.model_fields) - named <= {"hosts", "processes"}


@pytest.mark.parametrize("text", [KUNPENG, KUNPENG_PD], ids=["native", "pd"])
def test_the_platform_page_names_every_setting_flag_and_variable(compiled: Compile, text: str) -> None:
    named = set(re.findall(r"`([\w-]+)(?::[^`]*)?`", PLATFORM))
    assert set(KunpengSettings.model_fields) <= named
    assert set(Layout.model_fields) <= named
    tables = (numbers.FLAGS, numbers.MTP_FLAGS, numbers.TOKENIZER_FLAGS, *numbers.ROLE_FLAGS.values())
    assert {name for table in tables for name in table} <= named
    assert set(numbers.ROUTER_FLAGS) <= named
    apart = ["router.tokenizer=separate"] if text is KUNPENG_PD else []
    for process in compiled(text, *apart).plan.processes:
        assert set(process.env) - {"SPT_NOENV"} <= named
        assert set(process.env_prepend) <= named


def test_the_profile_on_the_platform_page_plans(compiled: Compile) -> None:
    found = compiled(block(PLATFORM, "yaml"))
    assert found.warnings == ()
    assert len(found.plan.processes) == 64


@pytest.mark.parametrize("text", blocks(TOPOLOGIES_PAGE, "yaml"))
def test_the_profiles_on_the_topologies_page_plan(compiled: Compile, text: str) -> None:
    found = compiled(text)
    assert found.warnings == ()
    assert found.plan.front_door.workers


def test_the_topologies_page_names_every_topology_key_and_agreement() -> None:
    named = set(re.findall(r"`([\w-]+)(?::[^`]*)?`", TOPOLOGIES_PAGE))
    keys = set(re.findall(r"^ +(?:# )?(\w+):", "\n".join(blocks(TOPOLOGIES_PAGE, "yaml")), re.MULTILINE))
    assert set(PROFILES) | ROLE_KEYS <= named
    dotted = set(re.findall(r"`router\.(\w+)", TOPOLOGIES_PAGE))
    assert set(Router.model_fields) <= named | keys | dotted
    assert set(AGREE) | set(AGREE_BETTER) | set(AGREE_ENV) | {PARTITION} <= named
    assert {"health-check-interval-secs", "health-check-timeout-secs", "worker-startup-timeout-secs"} <= named
