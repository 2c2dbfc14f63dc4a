"""Experts over ranks, and the spellings of GLM-5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sgdeploy.weights.cut.sizes import Sizes
from sgdeploy.weights.errors import CheckpointError
from tests.weights.planning import planned, told, wish
from tests.weights.test_families import Made
from tests.weights.tiny import TINY, Entry, deepseek, deepseek_config, values, write_model
from tests.weights.writing import write

W2 = "model.layers.2.mlp.experts.w2_weight"
W13 = "model.layers.2.mlp.experts.w13_weight"
PLAIN = replace(TINY, mtp=0)


def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model", deepseek(PLAIN), deepseek_config(PLAIN), 2)


def expert(number: int, part: str) -> bytes:
    shape = (64, 32) if part == "down" else (32, 64)
    return values(f"model.layers.2.mlp.experts.{number}.{part}_proj.weight", "I8", shape)


def test_neighbouring_experts_share_a_rank(tmp_path: Path) -> None:
    folder = model(tmp_path)
    made = Made(folder, planned(folder, wish("upstream", Sizes(tp=4, ep=4))))
    assert made.parameter(W2).shape == (2, 64, 32)
    assert made.read(W2, 1) == expert(2, "down") + expert(3, "down")


def test_ranks_share_an_expert(tmp_path: Path) -> None:
    """Expert group r // 2, and half of each expert by r % 2."""
    folder = model(tmp_path)
    made = Made(folder, planned(folder, wish("upstream", Sizes(tp=4, ep=2))))
    assert made.parameter(W13).shape == (4, 32, 64)
    half = [expert(number, part)[16 * 64 :] for number in range(4, 8) for part in ("gate", "up")]
    assert made.read(W13, 3) == b"".join(half)
    body = expert(4, "down")
    assert made.read(W2, 2)[: 64 * 16] == b"".join(body[row * 32 : row * 32 + 16] for row in range(64))


def test_redundant_experts_are_the_first_ones_again(tmp_path: Path) -> None:
    folder = model(tmp_path)
    made = Made(folder, planned(folder, wish("upstream", Sizes(tp=4, ep=4, redundant=4))))
    assert made.read(W2, 2) == expert(6, "down") + expert(7, "down") + expert(0, "down")
    assert made.read(W2, 3) == expert(1, "down") + expert(2, "down") + expert(3, "down")


def test_a_map_says_where_experts_are(tmp_path: Path) -> None:
    folder = model(tmp_path)
    rows = {2: (7, 6, 5, 4, 3, 2, 1, 0, 7, 7, 7, 7)}
    made = Made(folder, planned(folder, wish("upstream", Sizes(tp=4, ep=4, redundant=4, expert_map=rows))))
    assert made.read(W2, 0) == expert(7, "down") + expert(6, "down") + expert(5, "down")
    assert made.read(W2, 3) == expert(7, "down") * 3


def test_a_map_that_loses_an_expert_is_refused(tmp_path: Path) -> None:
    rows = {2: (0, 1, 2, 3, 4, 5, 6, 6)}
    (message,) = told(model(tmp_path), wish("upstream", Sizes(tp=4, ep=4, expert_map=rows)))
    assert "the expert map of layer 2 has 8 entries for 8 physical experts; unknown: none; missing: 7" in message


def glm(offset: str | None = None) -> Iterator[Entry]:
    """Give the tensors as GLM-5 spells them: bare names, other scales, gate and up in one, an indexer."""
    for name, dtype, shape in deepseek(PLAIN):
        if ".up_proj." in name:
            continue
        new = name.replace(".gate_proj.", ".gateup_proj.")
        both = (2 * shape[0], *shape[1:]) if ".gate_proj." in name else shape
        if dtype == "I8" and ".mlp." in name:
            yield new.removesuffix(".weight"), dtype, both
        elif ".mlp." in name and name.endswith("_scale"):
            yield new.replace(".weight_scale", ".scale"), dtype, both
        else:
            yield new.replace(".weight_scale", ".weight.scale"), dtype, both
    for number in range(PLAIN.layers):
        at = f"model.layers.{number}.self_attn.indexer"
        yield f"{at}.wk.weight", "BF16", (16, 64)
        yield f"{at}.k_norm.weight", "BF16", (16,)
        yield f"{at}.k_norm.bias", "BF16", (16,)
    if offset is not None:
        yield f"{offset}.weight_offset", "F32", (64, 1)


def test_other_spellings_become_the_runtimes(tmp_path: Path) -> None:
    config = {**deepseek_config(PLAIN), "architectures": ["GlmMoeDsaForCausalLM"]}
    folder = write_model(tmp_path / "model", glm(), config, 2)
    made = Made(folder, planned(folder, wish("upstream", Sizes(tp=4, ep=4))))
    name = "model.layers.0.mlp.gateup_proj"
    body = values(name, "I8", (256, 64))
    assert made.read("model.layers.0.mlp.gate_up_proj.weight", 1) == body[32 * 64 : 64 * 64] + body[160 * 64 : 192 * 64]
    assert made.parameter("model.layers.0.mlp.gate_up_proj.weight_scale").shape == (64, 1)
    assert made.parameter(W13).shape == (2, 64, 64)
    assert made.parameter("model.layers.2.mlp.experts.w13_weight_scale").shape == (2, 64, 1)
    assert made.parameter("model.layers.0.self_attn.o_proj.weight_scale").shape == (64, 1)
    assert made.parameter("model.layers.3.self_attn.indexer.k_norm.bias").ways == 1


@pytest.mark.parametrize("zero", [True, False])
def test_an_offset_is_dropped_only_where_it_is_zero(tmp_path: Path, *, zero: bool) -> None:
    name = "model.layers.0.self_attn.o_proj"
    config = {**deepseek_config(PLAIN), "architectures": ["GlmMoeDsaForCausalLM"]}
    folder = write_model(tmp_path / "model", glm(name), config)
    wanted = wish("upstream", Sizes(tp=4, ep=4))
    (drop,) = planned(folder, wanted).dropped
    assert (drop.tensor.name, drop.zero) == (f"{name}.weight_offset", True)
    if zero:
        shard = folder / "model-00001-of-00001.safetensors"
        raw = bytearray(shard.read_bytes())
        raw[drop.tensor.offset : drop.tensor.offset + drop.tensor.size] = bytes(drop.tensor.size)
        shard.write_bytes(raw)
        assert write(folder, tmp_path / "out", wanted).complete
        return
    with pytest.raises(CheckpointError) as raised:
        write(folder, tmp_path / "out", wanted)
    assert raised.value.problems[0].message.startswith(f"{name}.weight_offset is not zero")
    assert not list((tmp_path / "out").glob("model-rank-*"))
