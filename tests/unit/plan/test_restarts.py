"""`restart:` of a profile on its way into a plan."""

from __future__ import annotations

from pathlib import Path

from sgdeploy.plan.compile import compile_profile
from sgdeploy.plan.model import Plan, RestartPolicy

PROFILE = """\
version: 1
name: tiny
topology: native
platform: cpu
inventory: {version: 1, groups: {all: [n01, n02, n03]}}
model: {path: /models/tiny}
native:
  a: {hosts: n01, restart: {}}
  b: {hosts: n02, restart: {policy: never}}
  c: {hosts: n03}
"""


def test_who_asks_is_in_the_plan_and_a_plan_without_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(PROFILE)
    plan = compile_profile(path).plan
    assert plan.restarts == {"native/a": RestartPolicy(max=3, backoff=10.0)}
    assert Plan.from_json(plan.to_json()) == plan
    path.write_text(PROFILE.replace(", restart: {}", ""))
    without = compile_profile(path).plan
    assert "restarts" not in without.to_json()
    assert without.digest != plan.digest
    assert Plan.from_json(without.to_json()) == without
