"""Wishes that do not fit the model, the runtime or each other: numbers, a next step, exit code 2."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.weights.conftest import Call
from tests.weights.tiny import TINY, deepseek, deepseek_config, write_model

KUNPENG = ("--scheme", "kunpeng", "--tp", 8, "--dp", 2)
UPSTREAM = ("--tp", 8, "--dp", 2, "--ep", 8)


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ("--tp", 3),
            "model.layers.0.self_attn.o_proj.weight (and 4 more): 128 columns (8 heads) do not divide by attention TP",
            "TP sizes that fit: 1 2 4 8",
        ),
        (
            ("--tp", 3),
            "model.layers.0.mlp.down_proj.weight (and 1 more): 128 columns do not divide by TP 3",
            "TP sizes that fit: 1 2 4 8 16 32 64 128",
        ),
        (
            ("--tp", 6, "--ep", 3),
            "8 experts + 0 redundant over ep 3: not a whole number per rank",
            "ep that fits: 1 2 4 8",
        ),
        (
            ("--tp", 4, "--redundant-experts", 1, "--ep", 4),
            "8 experts + 1 redundant over ep 4: not a whole number per rank",
            "ep that fits: 1 3 9",
        ),
        (
            ("--scheme", "kunpeng", "--tp", 4, "--ep", 4),
            "ep 4 with --scheme kunpeng: this runtime wants one expert per rank, and there are 8 experts for 4 ranks",
            "tp and ep 8 fit, or another scheme",
        ),
        (
            ("--scheme", "kunpeng", "--tp", 24, "--ep", 24),
            "ep 24 with --scheme kunpeng: this runtime wants one expert per rank, and there are 8 experts for 24 ranks",
            "tp and ep 8 fit, or another scheme",
        ),
        (("--tp", 8, "--dp", 3), "tp 8 is no multiple of dp 3", "dp that fits: 1 2 4 8"),
        (
            ("--tp", 4, "--pp", 2, "--pp-partition", "3,2"),
            "the stages' layers 3,2 are 2 numbers that sum up to 5; there are 2 stages and 4 layers",
            "give one number per stage",
        ),
        (("--tp", 4, "--pp", 5), "4 layers cannot be spread over 5 stages", ""),
        (
            ("--scheme", "kunpeng-socket", "--tp", 4, "--layout", "kunpeng_state"),
            "class fused_qkv_a is cut over socket:8, which 4 ranks do not divide into",
            "pass --class fused_qkv_a=RULE with another rule",
        ),
        (
            ("--scheme", "kunpeng", "--tp", 8, "--dp", 2, "--layout", "kunpeng_state", "--class", "lm_head=global"),
            "class lm_head is cut over TP 8, but kunpeng_state has one file for each of the 4 ranks",
            "--class lm_head=attention, or --layout sharded_state",
        ),
        (
            ("--tp", 4, "--layout", "kunpeng_state"),
            "the runtime of scheme upstream does not read kunpeng_state",
            "it reads: sharded_state",
        ),
        (
            (*UPSTREAM, "--class", "shared_expert=whole"),
            "this model has no class shared_expert",
            "did you mean shared_experts?",
        ),
        ((*UPSTREAM, "--class", "norm=global"), "class norm is never cut; global does not fit", "leave it out"),
        ((*UPSTREAM, "--class", "experts=whole"), "experts are spread by expert parallelism", "change --ep instead"),
        ((*UPSTREAM, "--class", "lm_head=half"), "--class lm_head=half: half is no rule", "NAME=socket:8"),
        ((*UPSTREAM, "--mtp", "seperate"), "--mtp seperate: no such choice", "did you mean separate?"),
        ((*UPSTREAM, "--scheme", "kunpen"), "no scheme named kunpen ships with sgdeploy", "did you mean kunpeng?"),
        ((*UPSTREAM, "--ranks", "0-9"), "--ranks 0-9: there are 8 ranks, 0 to 7", ""),
        ((*UPSTREAM, "--ranks", "a"), "--ranks a: 'a' is no rank and no range", "write 0-15 or 0-3,8-11"),
        ((*UPSTREAM, "--node-rank", 1), "--node-rank needs to know how many nodes there are", "pass --nnodes"),
        ((*UPSTREAM, "--node-rank", 2, "--nnodes", 2), "node rank 2 is beyond the 2 nodes (0 to 1)", ""),
        ((*UPSTREAM, "--node-rank", 0, "--nnodes", 3), "8 ranks do not spread evenly over 3 nodes", ""),
        ((), "no sizes are known", "pass --profile, or --tp"),
    ],
)
def test_wishes_that_do_not_fit(pristine: Path, call: Call, words: tuple[object, ...], message: str, hint: str) -> None:
    found = call("--model", pristine, "--plan", *words)
    assert (found.code, found.out) == (2, "")
    assert f"error: {message}" in found.err
    assert hint in found.err


def test_a_vocabulary_that_the_runtime_pads(tmp_path: Path, call: Call) -> None:
    size = replace(TINY, vocabulary=1000, mtp=0)
    model = write_model(tmp_path / "model", deepseek(size), deepseek_config(size))
    found = call("--model", model, "--tp", 4, "--plan")
    assert found.code == 2
    words = "vocabulary 1000 is padded to 1024 by SGLang; rank 3 would get 232 of 256 rows"
    assert f"error: lm_head.weight: {words}\n  hint: pass --pad-vocab zeros\n" in found.err
    assert call("--model", model, "--tp", 4, "--plan", "--pad-vocab", "zeros").code == 0
