"""Checkpoints that are not whole: the tensor or file, numbers, a next step, exit code 2."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.weights.breaking import config, header, piped, pointer, renamed, shorten, swapped, without
from tests.weights.conftest import Call
from tests.weights.tiny import TINY, deepseek, deepseek_config, write_model

UPSTREAM = ("--tp", 8, "--dp", 2, "--ep", 8)
WIDE = ("--tp", 4, "--ep", 4)

FIRST = "model-00001-of-00003.safetensors"
GATE = "model.layers.1.mlp.gate_proj.weight"
EXPERT = [
    f"model.layers.2.mlp.experts.5.{part}_proj.{kind}"
    for part in ("gate", "up", "down")
    for kind in ("weight", "weight_scale")
]
BROKEN: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "scale": (
        lambda model: without(model, f"{GATE}_scale"),
        f"{GATE} has no weight_scale in any shard (checkpoint looks half quantised: 111 of 112 linear weights have",
        "copy the checkpoint again, or quantise all of it",
    ),
    "missing-file": (
        lambda model: (model / "model-00003-of-00003.safetensors").unlink(),
        "index names model-00003-of-00003.safetensors: file missing",
        "copy it again",
    ),
    "cut-short": (
        shorten,
        "model-00002-of-00003.safetensors has 241512 bytes, header needs 242512 (download cut short?)",
        "copy it again",
    ),
    "pointer": (pointer, f"{FIRST} is a Git LFS pointer, not the weights themselves", "copy it again"),
    "not-safetensors": (
        lambda model: (model / FIRST).write_bytes(b"\xff" * 100),
        f"{FIRST} is no safetensors file: its first bytes would mean a header of 18446744073709551615 bytes",
        "copy it again",
    ),
    "empty": (
        lambda model: (model / FIRST).write_bytes(b""),
        f"{FIRST} has 0 bytes, too few for a safetensors file",
        "",
    ),
    "header-only": (
        lambda model: (model / FIRST).write_bytes((90).to_bytes(8, "little") + b"{"),
        f"{FIRST} has 9 bytes, its header alone needs 98 (download cut short?)",
        "copy it again",
    ),
    "header-damaged": (
        lambda model: (model / FIRST).write_bytes((2).to_bytes(8, "little") + b"{]"),
        f"{FIRST} has a damaged header: ",
        "copy it again",
    ),
    "header-nested": (
        lambda model: (model / FIRST).write_bytes((200_000).to_bytes(8, "little") + b"[" * 200_000),
        f"{FIRST} has a damaged header: ",
        "copy it again",
    ),
    "config-nested": (
        lambda model: (model / "config.json").write_text("[" * 200_000),
        "config.json cannot be read: ",
        "copy it again",
    ),
    "index-nested": (
        lambda model: (model / "model.safetensors.index.json").write_text("[" * 200_000),
        "model.safetensors.index.json cannot be read: ",
        "copy it again",
    ),
    "swapped": (swapped, "index says ", "the index does not belong to these shards"),
    "unknown": (
        lambda model: renamed(model, "model.layers.3.input_layernorm.weight", "model.layers.3.self_attn.sinks"),
        "no rule for model.layers.3.self_attn.sinks",
        "a scheme file with a row for it says how it is cut",
    ),
    "part-missing": (
        lambda model: without(model, "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight_scale"),
        "model.layers.0.mlp.gate_up_proj.weight: 2 tensors make it up, found: model.layers.0.mlp.gate_proj.weight",
        "the checkpoint is incomplete",
    ),
    "expert-missing": (
        lambda model: without(model, *EXPERT),
        "model.layers.2.mlp.experts.w13_weight is there for 7 experts, config.json says 8 (missing: [5])",
        "the checkpoint is incomplete",
    ),
    "experts-beyond": (
        lambda model: config(model, n_routed_experts=4),
        "is there for 8 experts, config.json says 4 (beyond the last: [4, 5, 6, 7])",
        "the checkpoint is incomplete",
    ),
    "layers-unknown": (
        lambda model: config(model, num_hidden_layers=None),
        "config.json: num_hidden_layers must be a whole number from 1, got None",
        "",
    ),
    "layers-fewer": (
        lambda model: config(model, num_hidden_layers=3),
        "no rule for model.layers.4.embed_tokens.weight",
        "",
    ),
    "layers-more": (
        lambda model: config(model, num_hidden_layers=7, num_nextn_predict_layers=0),
        "no tensor of layer 5, 6 is in any shard; config.json says num_hidden_layers 7",
        "the checkpoint is incomplete",
    ),
    "layers-countless": (
        lambda model: config(model, num_hidden_layers=10**9),
        "config.json: num_hidden_layers is 1000000000, and the checkpoint has only ",
        "config.json and the weights do not belong together",
    ),
    "pipe": (
        lambda model: piped(model / FIRST),
        "it is no regular file",
        "",
    ),
    "config-pipe": (
        lambda model: piped(model / "config.json"),
        "config.json cannot be read: it is no regular file",
        "",
    ),
    "architecture": (
        lambda model: config(model, architectures=["GptOssForCausalLM"]),
        "no family of models describes GptOssForCausalLM",
        "known: DeepseekV2ForCausalLM",
    ),
    "no-config": (lambda model: (model / "config.json").unlink(), "there is no config.json in", "copy it again"),
    "bad-config": (
        lambda model: (model / "config.json").write_text("{"),
        "config.json cannot be read: ",
        "copy it again",
    ),
    "heads": (
        lambda model: config(model, num_attention_heads=7),
        "192 rows are no whole number for each of 7 (num_attention_heads in config.json)",
        "config.json and the weights do not belong together",
    ),
    "shape": (
        lambda model: header(model / FIRST, lambda entries: next(iter(list(entries.values())[1:])).update(shape=[3])),
        "which needs",
        "copy it again",
    ),
    "overlap": (
        lambda model: header(
            model / FIRST, lambda entries: list(entries.values())[2].update(list(entries.values())[1])
        ),
        "has a damaged header: ",
        "copy it again",
    ),
    "twice": (
        lambda model: shutil.copy(model / FIRST, model / "model-00002-of-00003.safetensors"),
        f"is in {FIRST} and in model-00002-of-00003.safetensors (94 such tensors)",
        "move one of the two files out of the folder",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_checkpoints_that_are_not_whole(model: Path, call: Call, name: str) -> None:
    break_it, message, hint = BROKEN[name]
    break_it(model)
    found = call("--model", model, "--plan", *(WIDE if name == "experts-beyond" else UPSTREAM))
    assert (found.code, found.out) == (2, "")
    assert message in found.err
    assert hint in found.err


def test_a_layer_that_lacks_what_its_likes_have(tmp_path: Path, call: Call) -> None:
    size = replace(TINY, layers=6, mtp=0)
    model = write_model(tmp_path / "model", deepseek(size), deepseek_config(size))
    without(model, "model.layers.4.mlp.gate.weight")
    found = call("--model", model, "--plan", *UPSTREAM)
    assert found.code == 2
    assert "model.layers.4.mlp.gate.weight is in no shard, but 3 other layers have theirs" in found.err


def test_all_problems_come_at_once(model: Path, call: Call) -> None:
    without(model, f"{GATE}_scale")
    renamed(model, "model.layers.3.input_layernorm.weight", "model.layers.3.self_attn.sinks")
    found = call("--model", model, "--plan", "--tp", 3, "--json")
    messages = [problem["message"] for event in found.events for problem in event["problems"]]
    assert found.code == 2
    for part in (
        "has no weight_scale",
        "no rule for",
        "columns (8 heads) do not divide",
        "columns do not divide by TP 3",
    ):
        assert any(part in message for message in messages), part
    assert len(messages) == len(set(messages)) < 20


def test_no_model(tmp_path: Path, call: Call) -> None:
    assert "the model folder" in call("--model", tmp_path / "none", "--plan", "--tp", 2).err
    (tmp_path / "empty").mkdir()
    found = call("--model", tmp_path / "empty", "--plan", "--tp", 2)
    assert found.code == 2
    assert "there is no config.json" in found.err
    assert "there is no .safetensors file in" in found.err
