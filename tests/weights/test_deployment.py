"""What a deployment's commands say about the split that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgdeploy.paths import data_dir
from sgdeploy.plan.compile import compile_profile
from sgdeploy.weights.cut.deployment import deployments, engine_flags
from sgdeploy.weights.cut.sizes import Sizes

CPU = """\
version: 1
name: tiny
topology: native
platform: cpu
model: {path: /split}
inventory: {version: 1, groups: {all: ["127.0.1.1", "127.0.1.2"]}}
native:
  hosts: all
  parallel: {tp: 8, dp: %s, ep: 4}
  flags: {%s}
"""


def test_flags_are_read_in_both_spellings() -> None:
    argv = (
        "python",
        "-m",
        "sglang.launch_server",
        "--tp-size",
        "8",
        "--pp-size=2",
        "--enable-dp-lm-head",
        "--port",
        "1",
    )
    assert engine_flags(argv) == {"tp-size": "8", "pp-size": "2", "enable-dp-lm-head": "", "port": "1"}


def test_the_shipped_kunpeng_profile() -> None:
    plan = compile_profile(data_dir("profiles") / "kunpeng" / "deepseek-v3-native.yaml").plan
    (found,) = deployments(plan)
    assert (found.unit, found.model, found.scheme, found.nodes) == ("native", "/opt/model", "kunpeng", 16)
    assert found.sizes == Sizes(tp=256, dp=16, ep=256)
    assert found.classes == {}


def test_roles_apart_are_instances_apart() -> None:
    plan = compile_profile(data_dir("profiles") / "kunpeng" / "deepseek-v3-pd.yaml").plan
    assert {each.unit.partition("/")[0] for each in deployments(plan)} == {"prefill", "decode"}


@pytest.mark.parametrize(
    ("flags", "sizes", "classes"),
    [
        ("", Sizes(tp=8, ep=4), {}),
        ("enable-dp-attention: true", Sizes(tp=8, dp=2, ep=4), {}),
        (
            "enable-dp-attention: true, enable-dp-lm-head: true",
            Sizes(tp=8, dp=2, ep=4),
            {"lm_head": "attention", "mtp_lm_head": "attention"},
        ),
        ("moe-dense-tp-size: 1", Sizes(tp=8, ep=4), {"dense_mlp": "whole"}),
        ("moe-a2a-backend: deepep", Sizes(tp=8, ep=4), {"shared_experts": "whole"}),
        ("moe-a2a-backend: none", Sizes(tp=8, ep=4), {}),
        ("ep-num-redundant-experts: 4", Sizes(tp=8, ep=4, redundant=4), {}),
    ],
)
def test_flags_move_cuts(tmp_path: Path, flags: str, sizes: Sizes, classes: dict[str, str]) -> None:
    profile = tmp_path / "my.yaml"
    profile.write_text(CPU % (sizes.dp, flags))
    (found,) = deployments(compile_profile(profile).plan)
    assert (found.sizes, found.classes, found.scheme) == (sizes, classes, "upstream-cpu")
