"""Plans against what SGLang 0.5.23 really builds: each scheme with a manifest that fits and one that does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sgdeploy.weights.cut.expect import check_expected, read_expected
from sgdeploy.weights.cut.planner import Wish
from sgdeploy.weights.cut.sizes import Sizes
from tests.weights.planning import DATA, planned, wish
from tests.weights.test_families import Dense, dense, dense_config
from tests.weights.tiny import VARIANTS, Entry, deepseek, deepseek_config, plain, write_model

MANIFESTS = DATA / "runtime_manifests"
WIDE = VARIANTS["dsv3-b"]
LLAMA = Dense(hidden=256, heads=8, kv=2, head=32, inter=1024, vocabulary=1000, tied=True)


def qwen() -> Iterator[Entry]:
    """Give the tensors of the mixture of experts that its manifest was read from."""
    for name, dtype, shape in dense(replace(LLAMA, head=64, tied=False)):
        if ".mlp." not in name:
            yield name, dtype, shape
    for number in range(2):
        at = f"model.layers.{number}"
        yield from plain(f"{at}.self_attn.q_norm.weight", 64)
        yield from plain(f"{at}.self_attn.k_norm.weight", 64)
        yield from plain(f"{at}.mlp.gate.weight", 8, 256)
        for expert in range(8):
            yield from plain(f"{at}.mlp.experts.{expert}.gate_proj.weight", 256, 256)
            yield from plain(f"{at}.mlp.experts.{expert}.up_proj.weight", 256, 256)
            yield from plain(f"{at}.mlp.experts.{expert}.down_proj.weight", 256, 256)


def qwen_config() -> dict[str, Any]:
    return {
        **dense_config(LLAMA),
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": 8,
        "tie_word_embeddings": False,
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write the three models that the manifests are of."""
    base = tmp_path_factory.mktemp("expect")
    return {
        "v3": write_model(base / "v3", deepseek(WIDE), deepseek_config(WIDE), 3),
        "llama": write_model(base / "llama", dense(LLAMA), dense_config(LLAMA)),
        "qwen": write_model(base / "qwen", qwen(), qwen_config()),
    }


def differences(model: Path, wanted: Wish, manifest: str) -> list[str]:
    """Plan, compare, and give what is said."""
    expected = read_expected((MANIFESTS / f"{manifest}.json").read_text())
    assert not isinstance(expected, str)
    found = check_expected(planned(model, wanted), wanted.sizes, expected, "m.json")
    return [f"{problem.message} | {problem.hint}" for problem in found]


SPREAD = Sizes(tp=4, dp=2, ep=4)


@pytest.mark.parametrize(
    ("model", "wanted", "manifest"),
    [
        ("v3", wish("upstream", SPREAD, mtp="drop"), "v3_tp4_dp2_ep4_w8a8"),
        ("v3", wish("upstream", SPREAD), "v3_tp4_dp2_ep4_w8a8"),
        ("v3", wish("upstream", SPREAD), "v3_nextn_tp4_dp2_ep4_w8a8"),
        ("v3", wish("upstream", Sizes(tp=4), mtp="drop"), "v3_tp4_w8a8"),
        ("llama", wish("upstream-cpu", Sizes(tp=4), pad_vocabulary=True), "llama_tp4_bf16_tied"),
        ("qwen", wish("upstream-cpu", Sizes(tp=4, ep=4), pad_vocabulary=True), "qwen3moe_tp4_ep4_bf16"),
    ],
)
def test_splits_that_the_runtime_takes(models: dict[str, Path], model: str, wanted: Wish, manifest: str) -> None:
    assert differences(models[model], wanted, manifest) == []


FUSED = "first model.layers.0.self_attn.fused_qkv_a_proj_with_mqa.weight: plan I8"


@pytest.mark.parametrize(
    ("model", "wanted", "manifest", "message"),
    [
        (
            "v3",
            wish("kunpeng-socket", replace(SPREAD, tp=8, ep=8)),
            "v3_tp4_dp2_ep4_w8a8",
            f"37 parameters differ, {FUSED} [6, 256], runtime I8 [48, 256] | try --class fused_qkv_a=whole",
        ),
        (
            "v3",
            wish("upstream", Sizes(tp=4), mtp="drop"),
            "v3_tp4_dp2_ep4_w8a8",
            "first model.embed_tokens.weight: plan BF16 [256, 256], runtime BF16 [512, 256]",
        ),
        (
            "v3",
            wish("upstream", SPREAD, {"fused_qkv_a": "attention"}, mtp="drop"),
            "v3_tp4_dp2_ep4_w8a8",
            f"8 parameters differ, {FUSED} [24, 256], runtime I8 [48, 256] | try --class fused_qkv_a=whole",
        ),
        (
            "v3",
            wish("upstream", SPREAD, {"shared_experts": "attention"}, mtp="drop"),
            "v3_tp4_dp2_ep4_w8a8",
            "plan I8 [256, 256], runtime I8 [128, 256] | try --class shared_experts=global",
        ),
        (
            "v3",
            wish("upstream", SPREAD, {"eh_proj": "attention"}),
            "v3_nextn_tp4_dp2_ep4_w8a8",
            "model.eh_proj.weight: plan BF16 [128, 512], runtime BF16 [256, 512] | try --class eh_proj=whole",
        ),
        ("v3", wish("upstream", SPREAD, mtp="drop"), "v3_nextn_tp4_dp2_ep4_w8a8", "the plan has no draft model (mtp)"),
        (
            "v3",
            wish("upstream", SPREAD, mtp="inline"),
            "v3_tp4_dp2_ep4_w8a8",
            "28 parameters differ, first model.layers.4.eh_proj.weight: plan BF16 [256, 512], runtime none",
        ),
        (
            "v3",
            wish("upstream", Sizes(tp=2, ep=2)),
            "v3_tp4_w8a8",
            "differ, first model.embed_tokens.weight",
        ),
        (
            "llama",
            wish("upstream", Sizes(tp=4), pad_vocabulary=True),
            "llama_tp4_bf16_tied",
            "4 parameters differ, first model.layers.0.self_attn.qkv_proj.weight: plan BF16 [128, 256]",
        ),
        (
            "qwen",
            wish("upstream-cpu", Sizes(tp=4, ep=2), pad_vocabulary=True),
            "qwen3moe_tp4_ep4_bf16",
            "first model.layers.0.mlp.experts.w13_weight: plan BF16 [4, 256, 256], runtime BF16 [2, 512, 256]",
        ),
    ],
)
def test_splits_that_it_would_misread(
    models: dict[str, Path], model: str, wanted: Wish, manifest: str, message: str
) -> None:
    (found,) = differences(models[model], wanted, manifest)
    assert message in found


def test_other_types_count_as_well(models: dict[str, Path]) -> None:
    """The runtime would convert them in silence."""
    body = json.loads((MANIFESTS / "llama_tp4_bf16_tied.json").read_text())
    body["params"]["pp0-tp0"]["model.norm.weight"] = ["float32", [256]]
    expected = read_expected(json.dumps(body))
    assert not isinstance(expected, str)
    wanted = wish("upstream-cpu", Sizes(tp=4), pad_vocabulary=True)
    (problem,) = check_expected(planned(models["llama"], wanted), wanted.sizes, expected, "m.json")
    assert "model.norm.weight: plan BF16 [256], runtime F32 [256]" in problem.message


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"params": {}}', '{"params": {"rank0": {}}}', '{"params": {"pp0-tp0": 1}}']
)
def test_what_is_no_manifest(text: str) -> None:
    assert isinstance(read_expected(text), str)
