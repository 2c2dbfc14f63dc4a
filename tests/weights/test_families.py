"""Other models, types and settings: cut by plain slicing here, and compared byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sgdeploy.weights.cut.model import Parameter, SplitPlan
from sgdeploy.weights.cut.sizes import Sizes
from tests.weights.planning import planned, taken, told, wish
from tests.weights.tiny import TINY, Entry, deepseek, deepseek_config, plain, values, write_model


@dataclass(frozen=True)
class Dense:
    """Sizes of a Llama-shaped model."""

    hidden: int = 32
    heads: int = 8
    kv: int = 2
    head: int = 4
    inter: int = 64
    vocabulary: int = 128
    layers: int = 2
    dtype: str = "BF16"
    bias: bool = False
    tied: bool = False


def dense(size: Dense) -> Iterator[Entry]:
    """Give all tensors."""
    yield from plain("model.embed_tokens.weight", size.vocabulary, size.hidden)
    for number in range(size.layers):
        at = f"model.layers.{number}"
        yield from plain(f"{at}.input_layernorm.weight", size.hidden)
        yield from plain(f"{at}.post_attention_layernorm.weight", size.hidden)
        for name, heads in (("q", size.heads), ("k", size.kv), ("v", size.kv)):
            yield from plain(f"{at}.self_attn.{name}_proj.weight", heads * size.head, size.hidden, dtype=size.dtype)
            if size.bias:
                yield from plain(f"{at}.self_attn.{name}_proj.bias", heads * size.head)
        yield from plain(f"{at}.self_attn.o_proj.weight", size.hidden, size.heads * size.head, dtype=size.dtype)
        yield from plain(f"{at}.mlp.gate_proj.weight", size.inter, size.hidden, dtype=size.dtype)
        yield from plain(f"{at}.mlp.up_proj.weight", size.inter, size.hidden, dtype=size.dtype)
        yield from plain(f"{at}.mlp.down_proj.weight", size.hidden, size.inter, dtype=size.dtype)
    yield from plain("model.norm.weight", size.hidden)
    if not size.tied:
        yield from plain("lm_head.weight", size.vocabulary, size.hidden)


def dense_config(size: Dense, **more: Any) -> dict[str, Any]:
    """Give its configuration."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv,
        "vocab_size": size.vocabulary,
        "tie_word_embeddings": size.tied,
        **more,
    }


class Made:
    """A planned split whose parameters can be read."""

    def __init__(self, folder: Path, plan: SplitPlan) -> None:
        """Read the shards."""
        self._shards = [path.read_bytes() for path in sorted(folder.glob("*.safetensors"))]
        self.plan = plan

    def parameter(self, name: str, folder: str = "") -> Parameter:
        """Find one by name."""
        found = [b for b in self.plan.bundles if b.folder == folder for each in b.parameters if each.name == name]
        (bundle,) = found
        return next(each for each in bundle.parameters if each.name == name)

    def read(self, name: str, rank: int, folder: str = "") -> bytes:
        """Read what a rank gets of it."""
        return taken(self.parameter(name, folder), rank, self._shards)

    def names(self, folder: str = "") -> set[str]:
        """Name all parameters of a folder."""
        return {each.name for bundle in self.plan.bundles if bundle.folder == folder for each in bundle.parameters}


def llama(tmp_path: Path, size: Dense, sizes: Sizes, scheme: str = "upstream", **config: Any) -> Made:
    """Write and plan a Llama-shaped model."""
    folder = write_model(tmp_path / "model", dense(size), dense_config(size, **config), 2)
    return Made(folder, planned(folder, wish(scheme, sizes)))


def rows(name: str, size: tuple[int, int], first: int, end: int, dtype: str = "BF16") -> bytes:
    """Slice rows of a tensor."""
    wide = size[1] * (2 if dtype == "BF16" else 1)
    return values(name, dtype, size)[first * wide : end * wide]


def columns(name: str, size: tuple[int, int], first: int, end: int) -> bytes:
    """Slice columns of a BF16 tensor."""
    body, wide = values(name, "BF16", size), size[1] * 2
    return b"".join(body[row * wide + first * 2 : row * wide + end * 2] for row in range(size[0]))


Q, K, V, OUT = (f"model.layers.1.self_attn.{name}_proj.weight" for name in "qkvo")
QKV = "model.layers.1.self_attn.qkv_proj.weight"


@pytest.mark.parametrize(
    ("tp", "kv_of"), [(1, {0: (0, 2)}), (2, {1: (1, 2)}), (4, {0: (0, 1), 3: (1, 2)}), (8, {5: (1, 2)})]
)
def test_heads_of_keys_and_values_are_repeated(tmp_path: Path, tp: int, kv_of: dict[int, tuple[int, int]]) -> None:
    made = llama(tmp_path, Dense(), Sizes(tp=tp))
    for rank, (first, end) in kv_of.items():
        each = 32 // tp
        expected = rows(Q, (32, 32), rank * each, (rank + 1) * each)
        for name in (K, V):
            expected += rows(name, (8, 32), first * 4, end * 4)
        assert made.read(QKV, rank) == expected
        assert made.read(OUT, rank) == columns(OUT, (32, 32), rank * each, (rank + 1) * each)


def test_heads_are_padded_where_the_runtime_pads_them(tmp_path: Path) -> None:
    """SGLang on CPU: 8 heads and 2 KV heads over 4 ranks become 16 and 4, the added ones are zeros."""
    made = llama(tmp_path, Dense(), Sizes(tp=4), "upstream-cpu")
    assert made.parameter(QKV).shape == (6 * 4, 32)
    assert made.read(QKV, 1) == rows(Q, (32, 32), 16, 32) + rows(K, (8, 32), 4, 8) + rows(V, (8, 32), 4, 8)
    assert made.read(QKV, 2) == bytes(6 * 4 * 32 * 2)
    assert made.read(OUT, 1) == columns(OUT, (32, 32), 16, 32)
    assert made.read(OUT, 3) == bytes(32 * 16 * 2)


def test_biases_follow_their_weights(tmp_path: Path) -> None:
    made = llama(tmp_path, Dense(bias=True), Sizes(tp=2))
    bias = QKV.replace("weight", "bias")
    assert made.parameter(bias).shape == (24,)
    parts = [values(name.replace("weight", "bias"), "BF16", (32 if name is Q else 8,)) for name in (Q, K, V)]
    assert made.read(bias, 1) == b"".join(part[len(part) // 2 :] for part in parts)


def test_tied_embeddings_are_the_head_alone(tmp_path: Path) -> None:
    made = llama(tmp_path, Dense(tied=True), Sizes(tp=2))
    assert "model.embed_tokens.weight" not in made.names()
    assert made.read("lm_head.weight", 1) == rows("model.embed_tokens.weight", (128, 32), 64, 128)


def test_tied_embeddings_are_needed_at_both_ends_of_a_pipeline(tmp_path: Path) -> None:
    made = llama(tmp_path, Dense(tied=True), Sizes(tp=2, pp=2))
    assert "model.embed_tokens.weight" in made.names("pp0") - made.names("pp1")
    assert "lm_head.weight" in made.names("pp1") - made.names("pp0")


def test_the_rest_of_the_layers_is_on_the_last_stages(tmp_path: Path) -> None:
    made = llama(tmp_path, Dense(layers=5), Sizes(tp=1, pp=3))
    found = [{name.split(".")[2] for name in made.names(f"pp{stage}") if "layers" in name} for stage in range(3)]
    assert found == [{"0"}, {"1", "2"}, {"3", "4"}]
    made = llama(tmp_path / "given", Dense(layers=5), Sizes(tp=1, pp=2, partition=(4, 1)))
    assert sum("input_layernorm" in name for name in made.names("pp0")) == 4


def test_a_padded_vocabulary_ends_in_zeros(tmp_path: Path) -> None:
    size = Dense(vocabulary=100)
    folder = write_model(tmp_path / "model", dense(size), dense_config(size))
    made = Made(folder, planned(folder, wish("upstream", Sizes(tp=4), pad_vocabulary=True)))
    name = "model.embed_tokens.weight"
    assert made.read(name, 2) == rows(name, (100, 32), 64, 96)
    assert made.read(name, 3) == rows(name, (100, 32), 96, 100) + bytes(28 * 64)


def block_scaled(size: Dense) -> Iterator[Entry]:
    """Give the same model in 8-bit floats with one scale per block of 16 by 8."""
    for name, dtype, shape in dense(size):
        yield name, dtype, shape
        if dtype == "F8_E4M3":
            yield f"{name}_scale_inv", "F32", (-(-shape[0] // 16), -(-shape[1] // 8))


BLOCKS = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 8]}}
FP8 = Dense(dtype="F8_E4M3", hidden=64, head=16, inter=128)


def test_scales_of_blocks_are_cut_with_their_blocks(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", block_scaled(FP8), dense_config(FP8, **BLOCKS))
    made = Made(folder, planned(folder, wish("upstream", Sizes(tp=2))))
    down, scale = "model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.down_proj.weight_scale_inv"
    assert made.parameter(down).shape == (64, 64)
    assert made.parameter(scale).shape == (4, 8)
    body = values(scale, "F32", (4, 16))
    assert made.read(scale, 1) == b"".join(body[row * 64 + 32 : row * 64 + 64] for row in range(4))
    gate = "model.layers.0.mlp.gate_up_proj.weight_scale_inv"
    halves = [values(f"model.layers.0.mlp.{part}_proj.weight_scale_inv", "F32", (8, 8)) for part in ("gate", "up")]
    assert made.read(gate, 1) == b"".join(half[128:] for half in halves)


def test_a_cut_through_a_block_is_refused(tmp_path: Path) -> None:
    size = Dense(dtype="F8_E4M3", hidden=64, head=16, inter=96)
    folder = write_model(tmp_path / "model", block_scaled(size), dense_config(size, **BLOCKS))
    (gate, up) = told(folder, wish("upstream", Sizes(tp=4)))
    assert gate == (
        "model.layers.0.mlp.gate_proj.weight_scale_inv (and 1 more): a cut of 24 rows is no whole number of blocks of "
        "16 that share a scale | TP sizes that fit: 1 2 3 6"
    )
    assert "up_proj" in up


def test_a_scale_of_another_shape_is_refused(tmp_path: Path) -> None:
    entries = [
        (name, dtype, (1, 1) if name.endswith("layers.1.mlp.up_proj.weight_scale") else shape)
        for name, dtype, shape in deepseek(TINY)
    ]
    folder = write_model(tmp_path / "model", entries, deepseek_config(TINY))
    (message,) = told(folder, wish("upstream", Sizes(tp=2)))
    assert message.startswith(
        "model.layers.1.mlp.up_proj.weight_scale has shape [1, 1], its weight [128, 64] needs [128, 1] (one per row)"
    )


def test_parts_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    wrong = "model.layers.1.mlp.up_proj.weight"
    entries = [(name, dtype, (64, 16) if name == wrong else shape) for name, dtype, shape in dense(Dense())]
    folder = write_model(tmp_path / "model", entries, dense_config(Dense()))
    (message,) = told(folder, wish("upstream", Sizes(tp=2)))
    assert message.startswith(
        f"{wrong}: BF16 [64, 16] cannot be joined to model.layers.1.mlp.gate_proj.weight, BF16 [64, 32]"
    )
