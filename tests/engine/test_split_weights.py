"""The real loader reads our splits: every parameter of every rank has the bytes that the whole checkpoint gives it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from sgdeploy.cli.app import main
from tests.engine import loaded
from tests.engine.home import MODEL, PYTHON
from tests.weights.tiny import VARIANTS, deepseek, write_model

LIMIT = 240.0
"""Seconds for one start as far as the weights; some 20 on an idle machine."""

PORT = 31750
CPU = ("--device", "cpu", "--attention-backend", "torch_native", "--max-total-tokens", "4096", "--host", "127.0.0.1")


def engine_environment(ranks: int) -> dict[str, str]:
    """Give what the engine needs to run its ranks on CPU."""
    return {
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_CPU_OMP_THREADS_BIND": "|".join(str(rank % 2) for rank in range(ranks)),
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
    }


def loaded_by_engine(folder: Path, ranks: int, *flags: object, plain: bool = False) -> dict[str, Any]:
    """Start the engine, wait until every rank has loaded, end it; gives the fingerprints of all ranks."""
    folder.mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LOADED": str(folder),
        **({"LOADED_PLAIN": "1"} if plain else {}),
        **engine_environment(ranks),
    }
    words = [str(PYTHON), loaded.__file__, *CPU, "--port", str(PORT), "--tp-size", str(ranks), *map(str, flags)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environ, cwd=folder, start_new_session=True)
    try:
        until = time.monotonic() + LIMIT
        while not (folder / "done").exists():
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            assert time.monotonic() < until, f"waited {LIMIT:.0f} s until all ranks have loaded"
            time.sleep(0.2)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("tp*.json"))}


@pytest.mark.engine
@pytest.mark.timeout(2 * LIMIT)
def test_a_llama_at_tp_2(tmp_path: Path) -> None:
    out = tmp_path / "split"
    words = ("--model", MODEL, "--out", out, "--tp", 2, "--scheme", "upstream-cpu", "--pad-vocab", "zeros")
    assert main(["split-weights", *map(str, words)]) == 0
    whole = loaded_by_engine(tmp_path / "whole", 2, "--model-path", MODEL)
    split = loaded_by_engine(tmp_path / "split-loaded", 2, "--model-path", out, "--load-format", "sharded_state")
    assert sorted(whole) == ["tp0", "tp1"]
    assert split == whole
    assert len(whole["tp0"]) == 15
    assert whole["tp0"] != whole["tp1"]


@pytest.mark.engine
@pytest.mark.timeout(2 * LIMIT)
def test_its_own_manifest_fits_the_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the installed engine says that it builds is what our plan writes; another plan is refused."""
    for name, value in engine_environment(2).items():
        monkeypatch.setenv(name, value)
    manifest = str(tmp_path / "m.json")
    flags = ("--model-path", MODEL, *CPU, "--port", PORT, "--tp-size", 2)
    words = ("dump-manifest", "--python", PYTHON, "--out", manifest, "--timeout", f"{LIMIT:.0f}", "--", *flags)
    assert main(["split-weights", *map(str, words)]) == 0
    plan = ("--model", str(MODEL), "--plan", "--tp", "2", "--pad-vocab", "zeros", "--expect", manifest)
    assert main(["split-weights", *plan]) == 0
    assert main(["split-weights", *plan, "--class", "lm_head=whole"]) == 2


V3 = VARIANTS["dsv3-b"]
V3_CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": V3.hidden,
    "vocab_size": V3.vocabulary,
    "num_hidden_layers": V3.layers,
    "first_k_dense_replace": V3.dense,
    "intermediate_size": V3.inter,
    "moe_intermediate_size": V3.expert_inter,
    "n_routed_experts": V3.experts,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "num_attention_heads": V3.heads,
    "num_key_value_heads": V3.heads,
    "qk_nope_head_dim": V3.nope,
    "qk_rope_head_dim": V3.rope,
    "v_head_dim": V3.value,
    "q_lora_rank": V3.q_lora,
    "kv_lora_rank": V3.kv_lora,
    "num_nextn_predict_layers": V3.mtp,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "moe_layer_freq": 1,
    "hidden_act": "silu",
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 4096,
    },
    "max_position_embeddings": 4096,
}
INT8 = ("--quantization", "w8a8_int8", "--dp-size", 2, "--ep-size", 4, "--enable-dp-attention", "--skip-tokenizer-init")


@pytest.mark.engine
@pytest.mark.timeout(3 * LIMIT)
def test_a_small_deepseek_v3_in_int8(tmp_path: Path) -> None:
    """Attention data parallel in two groups, experts over four ranks; without the repacking that AMX CPUs do."""
    model = write_model(tmp_path / "model", deepseek(V3), V3_CONFIG, 3)
    out = tmp_path / "split"
    words = ("--model", model, "--out", out, "--tp", 4, "--dp", 2, "--ep", 4)
    assert main(["split-weights", *map(str, words)]) == 0
    whole = loaded_by_engine(tmp_path / "whole", 4, "--model-path", model, *INT8, plain=True)
    sharded = ("--model-path", out, "--load-format", "sharded_state")
    split = loaded_by_engine(tmp_path / "split-loaded", 4, *sharded, *INT8, plain=True)
    assert len(whole) == 4
    assert split == whole
    assert len(whole["tp3"]) == 79
