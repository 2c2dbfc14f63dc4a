"""The plan of every reference result gives the very bytes of that result."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgdeploy.weights.cut.sizes import Sizes
from tests.weights.planning import DATA, planned, prints_of, wish
from tests.weights.tiny import golden, make

WHOLE_MTP = {"eh_proj": "whole", "mtp_embed_tokens": "whole", "mtp_lm_head": "whole"}
"""What the older scripts leave whole in the layer of multi-token prediction."""

SURPLUS = ".self_attn.q_a_proj.weight"
"""What A writes beside the fused parameter that holds it."""


def sizes(ranks: int, attention: int) -> Sizes:
    return Sizes(tp=ranks, dp=ranks // attention, ep=ranks)


@pytest.mark.parametrize(
    ("name", "variant", "of", "classes"),
    [
        ("A_dsv3-tiny_g8_a4_lm1_mlp1", "dsv3-tiny", sizes(8, 4), WHOLE_MTP),
        ("A_dsv3-tiny_g8_a4_lm0_mlp1", "dsv3-tiny", sizes(8, 4), WHOLE_MTP | {"lm_head": "global"}),
        ("A_dsv3-tiny-e16_g16_a4_lm1_mlp1", "dsv3-tiny-e16", sizes(16, 4), WHOLE_MTP),
        (
            "A_dsv3-tiny-e16_g16_a4_lm0_mlp0",
            "dsv3-tiny-e16",
            sizes(16, 4),
            WHOLE_MTP | {"lm_head": "global", "dense_mlp": "global"},
        ),
        ("A_dsv2-tiny_g8_a4_lm1_mlp1", "dsv2-tiny", sizes(8, 4), {}),
        ("B_dsv3-tiny_g8_a8_lm1_mlp1", "dsv3-tiny", sizes(8, 8), WHOLE_MTP),
        ("C_dsv3-tiny_g8_a8_lm1_mlp1_s4", "dsv3-tiny", sizes(8, 8), WHOLE_MTP | {"fused_qkv_a": "socket:4"}),
    ],
)
def test_the_older_scripts(name: str, variant: str, of: Sizes, classes: dict[str, str], tmp_path: Path) -> None:
    model = make(variant, tmp_path / "model")
    plan = planned(model, wish("kunpeng", of, classes, mtp="inline"))
    surplus = SURPLUS if name.startswith("A_dsv3") else None
    assert prints_of(model, plan) == golden(DATA / f"{name}.json", surplus)


def test_the_surplus_of_the_first_script_is_nothing_else() -> None:
    with_it = golden(DATA / "A_dsv3-tiny_g8_a4_lm1_mlp1.json")
    without = golden(DATA / "A_dsv3-tiny_g8_a4_lm1_mlp1.json", SURPLUS)
    assert {len(with_it[file]) - len(without[file]) for file in with_it} == {5}


def test_files_by_attention_rank_and_expert(tmp_path: Path) -> None:
    model = make("dsv3-tiny", tmp_path / "model")
    plan = planned(
        model, wish("kunpeng-socket", sizes(8, 8), {"fused_qkv_a": "socket:4"}, layout="kunpeng_state", mtp="separate")
    )
    assert prints_of(model, plan) == golden(DATA / "D_dsv3-tiny_kunpeng_state_a8_s4.json")


def test_what_the_runtime_itself_makes_of_a_checkpoint(tmp_path: Path) -> None:
    model = make("dsv3-b", tmp_path / "model")
    plan = planned(model, wish("upstream", Sizes(tp=4, dp=2, ep=4), mtp="drop"))
    assert prints_of(model, plan) == golden(DATA / "U_dsv3-b_g4_a2_ep4_lm0.json")
