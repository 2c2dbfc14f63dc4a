"""The command as it is used: plans, JSON lines, profiles, an interruption, the way on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sgdeploy
from sgdeploy.weights.cut.manifest import HEAD
from sgdeploy.weights.worker.journal import JOURNAL
from tests.weights.breaking import renamed
from tests.weights.conftest import Call
from tests.weights.test_big import sparse
from tests.weights.tiny import DeepSeek, deepseek, deepseek_config, fingerprints

KUNPENG = ("--scheme", "kunpeng", "--tp", 8, "--dp", 2)
LIMIT = 60.0

PROFILE = """\
version: 1
name: tiny
topology: native
platform: kunpeng-920f
model: {path: /split}
inventory: {version: 1, groups: {rack: "10.0.0. | 1-2"}}
engine: {version: kunpeng, launch: rank, flags: {load-format: sharded_state}}
native: {hosts: rack, parallel: {tp: 8}}
"""


def test_a_plan_shows_rules_and_writes_nothing(pristine: Path, tmp_path: Path, call: Call) -> None:
    found = call("--model", pristine, "--out", tmp_path / "out", "--plan", *KUNPENG, "--nnodes", 2)
    assert (found.code, found.err) == (0, "")
    assert not (tmp_path / "out").exists()
    lines = [line.split() for line in found.out.splitlines()]
    assert "sharded_state by scheme kunpeng: tp 8, dp 2, ep 8, pp 1; files of ranks 0-7" in found.out
    assert ["fused_qkv_a", "attention", "TP", "4", "20", "16.3", "kB", "10", "4.1", "kB"] in lines
    assert ["experts", "ep", "8", "144", "159.7", "kB", "12", "20.0", "kB"] in lines
    assert ["mtp", "16", "4", "186.0", "kB"] in lines
    assert "  per node" in found.out
    assert "files that no runtime needs: figures" in found.out


def test_the_plan_for_programs(pristine: Path, call: Call) -> None:
    found = call("--model", pristine, "--plan", "--json", *KUNPENG, "--mtp", "drop")
    (plan,) = found.events
    assert plan["files"] == 16
    assert plan["facts"]["rules"]["fused_qkv_a"] == "attention"
    assert plan["dropped"][0]["tensors"] == 76
    assert plan["free"] is None


def test_events_for_programs(pristine: Path, tmp_path: Path, call: Call) -> None:
    found = call("--model", pristine, "--out", tmp_path / "out", "--json", *KUNPENG)
    assert (found.code, found.err) == (0, "")
    last, outcome = found.events[-2:]
    assert (last["event"], last["host"], last["files"], last["of_files"]) == ("split", "", 32, 32)
    assert last["written"] == last["of_bytes"] > 0
    assert (outcome["event"], outcome["outcome"]) == ("outcome", "split")
    again = call("--model", pristine, "--out", tmp_path / "out", "--json", *KUNPENG)
    assert [event["message"] for event in again.events if event["event"] == "note"] == [
        "32 of 32 files were there already"
    ]


def test_it_says_how_to_load_the_result(pristine: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    found = call("--model", pristine, "--out", out, *KUNPENG)
    assert f"load it with: --load-format sharded_state --model-path {out}\n" in found.err
    assert f"the draft model: --speculative-draft-model-path {out}/mtp\n" in found.err
    words = ("--model", pristine, "--tp", 2, "--ep", 2, "--pp", 2, "--mtp", "drop")
    stages = call(*words, "--out", tmp_path / "pp")
    assert f"--model-path {tmp_path}/pp/pp1 (pipeline stage 1)\n" in stages.err
    assert f"in a profile, for every stage its own: model.path: {tmp_path}/pp/pp{{stage}}\n" in stages.err
    nodes = call(*words, "--out", tmp_path / "pp", "--nnodes", 4)
    assert f"--model-path {tmp_path}/pp/pp1 (pipeline stage 1: node ranks 2-3)\n" in nodes.err


def test_a_relative_folder_is_told_whole_for_an_engine_that_starts_elsewhere(
    pristine: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = call("--model", pristine, "--out", "near", *KUNPENG)
    assert f"--model-path {tmp_path}/near\n" in found.err
    assert found.err.count("32 of 32 files") == 1


def test_a_split_is_no_checkpoint(pristine: Path, tmp_path: Path, call: Call) -> None:
    assert call("--model", pristine, "--out", tmp_path / "out", *KUNPENG).code == 0
    again = call("--model", tmp_path / "out", "--out", tmp_path / "other", *KUNPENG)
    assert again.code == 2
    assert f"{tmp_path}/out holds a split already (it has {HEAD})" in again.err


def test_a_profile_gives_sizes_and_scheme(pristine: Path, tmp_path: Path, call: Call) -> None:
    profile = tmp_path / "my.yaml"
    profile.write_text(PROFILE)
    found = call("--model", pristine, "--profile", profile, "--plan", "--json")
    (plan,) = found.events
    facts = plan["facts"]
    assert (facts["scheme"], facts["tp"], facts["dp"], facts["ep"]) == ("kunpeng", 8, 2, 8)
    assert plan["node"] is not None
    one = call("--model", pristine, "--profile", profile, "--plan", "--json", "--node-rank", 1)
    assert one.events[0]["ranks"] == "4-7"
    assert call("--model", pristine, "--profile", profile, "--instance", "decode", "--plan").code == 2


def test_a_scheme_of_ones_own(pristine: Path, tmp_path: Path, call: Call) -> None:
    scheme = tmp_path / "mine.yaml"
    scheme.write_text("extends: kunpeng\nclasses: {shared_experts: global}\n")
    found = call("--model", pristine, "--plan", "--json", *KUNPENG[2:], "--scheme", scheme)
    assert found.events[0]["facts"]["rules"]["shared_experts"] == "global"
    scheme.write_text("extends: kunpeng\nclasses: {shared_experts: halves}\n")
    wrong = call("--model", pristine, "--plan", *KUNPENG[2:], "--scheme", scheme)
    assert wrong.code == 2
    assert f"{scheme}:2:27: error: `classes.shared_experts` must be whole, attention, global or socket:N" in wrong.err
    scheme.write_text("extends: kunpen\n")
    unknown = call("--model", pristine, "--plan", "--tp", 8, "--scheme", scheme)
    assert f"{scheme}:1:10: error: no scheme named kunpen ships with sgdeploy" in unknown.err
    scheme.write_text("classes: {norm: whole}\n")
    alone = call("--model", pristine, "--plan", "--tp", 8, "--scheme", scheme)
    assert "a scheme that extends none must say everything\n  classes" in alone.err


def test_a_row_of_ones_own(model: Path, tmp_path: Path, call: Call) -> None:
    """A tensor that no family knows gets a row in a scheme file."""
    renamed(model, "model.layers.3.input_layernorm.weight", "model.layers.3.self_attn.sinks")
    scheme = tmp_path / "mine.yaml"
    row = '{tensor: "model.layers.{layer}.self_attn.sinks", class: sinks, optional: true}'
    scheme.write_text(f"extends: kunpeng\nclasses: {{sinks: whole}}\nrows:\n  - {row}\n")
    found = call("--model", model, "--plan", "--json", *KUNPENG[2:], "--scheme", scheme)
    assert found.code == 0, found.err
    assert "sinks" in {row["name"] for row in found.events[0]["classes"]}
    scheme.write_text(
        'extends: kunpeng\nrows:\n  - {tensor: "model.layers.{layer}.self_attn.sinks", class: norm, drop: "unused"}\n'
    )
    assert "unused" in call("--model", model, "--plan", *KUNPENG[2:], "--scheme", scheme).out


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Write a checkpoint of holes that takes a while to split."""
    size = DeepSeek(hidden=1024, vocabulary=65536, layers=2, dense=2, inter=16384, q_lora=512, mtp=0)
    return sparse(tmp_path / "large", deepseek(size), deepseek_config(size))


def test_ctrl_c_leaves_a_state_that_goes_on(large: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [sys.executable, "-m", "sgdeploy", "split-weights", "--model", str(large), "--out", str(out)]
    words += ["--tp", "8", "--workers", "1"]
    root = Path(sgdeploy.__file__).parents[1]
    run = subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + LIMIT
        while not list(out.glob("model-rank-*")):
            assert run.poll() is None, "it ended before it could be interrupted"
            assert time.monotonic() < until, "waited for the first file"
            time.sleep(0.005)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=LIMIT)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 130
    assert "of 8 files done" in said
    assert "hint: run the same command to go on" in said
    assert (out / JOURNAL).exists()
    assert not (out / HEAD).exists()
    assert not list(out.glob("*.partial")) + list(out.glob(".*.partial"))
    again = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert again.returncode == 0
    assert "files were there already" in again.stderr
    assert len(fingerprints(out)) == 8


def test_contradictions_end_with_2(pristine: Path, tmp_path: Path, call: Call) -> None:
    assert "--out is missing" in call("--model", pristine, "--tp", 2).err
    assert "--model is missing" in call("--plan", "--tp", 2).err
    assert "error: --model is missing, --out is missing, no sizes are known\n" in call().err
    assert (
        "--ranks and --node-rank contradict each other"
        in call("--model", pristine, "--plan", *KUNPENG, "--ranks", "0-3", "--node-rank", 1, "--nnodes", 2).err
    )
    missing = call("--model", pristine, "--plan", *KUNPENG, "--expect", tmp_path / "none.json")
    assert (missing.code, "none.json cannot be read" in missing.err) == (2, True)
    (tmp_path / "map.json").write_text(json.dumps({"physical_to_logical_map": [["a"]]}))
    bad = call("--model", pristine, "--plan", *KUNPENG, "--expert-map", tmp_path / "map.json")
    assert (bad.code, "is no expert map" in bad.err) == (2, True)
