"""Targets that cannot be written to, and runtimes that want something else."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from sgdeploy.weights.cut.manifest import HEAD
from sgdeploy.weights.worker import target
from sgdeploy.weights.worker.journal import Journal
from tests.weights.conftest import Call
from tests.weights.planning import DATA
from tests.weights.tiny import TINY, deepseek, deepseek_config, write_model

KUNPENG = ("--scheme", "kunpeng", "--tp", 8, "--dp", 2)

# What can be wrong with the target


def test_paths_that_cannot_be_a_target(model: Path, tmp_path: Path, call: Call) -> None:
    unnamed = call("--model", model, "--out", tmp_path / "a\udcff\n", *KUNPENG)
    assert unnamed.code == 2
    assert "holds characters that no manifest can name" in unnamed.err
    odd = call("--model", model, "--out", tmp_path / "a[1]", *KUNPENG)
    assert odd.code == 2
    assert "contains '[': SGLang passes it to glob and will not find the files" in odd.err
    inside = call("--model", model, "--out", model / "data", *KUNPENG)
    assert (inside.code, (model / "data").exists()) == (2, False)
    assert "output lies inside the model directory" in inside.err
    assert "is the model directory itself" in call("--model", model, "--out", model, *KUNPENG).err
    (tmp_path / "file").touch()
    assert "is no folder" in call("--model", model, "--out", tmp_path / "file", *KUNPENG).err


def test_foreign_files_would_be_loaded_too(model: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    out.mkdir()
    foreign = out / "model-rank-0-part-0.safetensors.safetensors"
    foreign.write_text("old")
    (out / "config.json").write_text("mine")
    found = call("--model", model, "--out", out, *KUNPENG)
    assert found.code == 2
    assert f"{foreign} is not from this plan and would be loaded as well" in found.err
    assert f"{out / 'config.json'} exists already and was not written by this plan" in found.err
    assert foreign.read_text() == "old"
    assert {path.name for path in out.iterdir()} == {foreign.name, "config.json"}


def test_another_plans_split_is_left_alone(model: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    assert call("--model", model, "--out", out, *KUNPENG).code == 0
    (out / "mine.txt").touch()
    found = call("--model", model, "--out", out, "--scheme", "kunpeng", "--tp", 8, "--dp", 1)
    assert found.code == 8
    assert f"{out} holds a split by another plan: dp 2 there, 1 here" in found.err
    assert "--start-over" in found.err
    assert call("verify", out).code == 0
    assert call("--model", model, "--out", out, "--scheme", "kunpeng", "--tp", 8, "--dp", 1, "--start-over").code == 0
    assert call("verify", out).code == 0
    assert (out / "mine.txt").exists()


def test_one_writer_at_a_time(model: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with (out / ".sgdeploy-split.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(json.dumps({"pid": 4242, "host": os.uname().nodename}))
        lock.flush()
        found = call("--model", model, "--out", out, *KUNPENG)
    assert found.code == 4
    assert f"another split-weights (pid 4242) is writing to {out}" in found.err
    assert call("--model", model, "--out", out, *KUNPENG).code == 0


def test_too_little_space(model: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(target, "free_space", lambda folder: 70_000 if folder == out else 0)
    found = call("--model", model, "--out", out, *KUNPENG, "--nnodes", 2)
    assert found.code == 3
    assert f"need 9.0 MB on {out}, 70.0 kB free. With --node-rank each node needs " in found.err
    assert not list(out.glob("model-rank-*"))


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.EROFS, "cannot be written to: Read-only file system"),
        (errno.EACCES, "cannot be written to: Permission denied"),
        (errno.EIO, "writing to {out} failed: Input/output error"),
    ],
)
def test_a_target_that_cannot_be_written_to(
    model: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch, number: int, message: str
) -> None:
    out = tmp_path / "out"

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(out))

    monkeypatch.setattr(Journal, "__init__", refuse)
    found = call("--model", model, "--out", out, *KUNPENG)
    assert found.code == 3
    assert message.format(out=out) in found.err
    hint = "choose another --out, below a folder" if number != errno.EIO else "mend that and run the same command again"
    assert hint in found.err


def test_a_place_below_a_file(model: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "file").touch()
    found = call("--model", model, "--out", tmp_path / "file" / "out", *KUNPENG)
    assert (found.code, f"{tmp_path}/file/out cannot be written to: Not a directory" in found.err) == (3, True)


def test_a_damaged_manifest_is_no_dead_end(model: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / HEAD).write_text("{}")
    found = call("--model", model, "--out", out, *KUNPENG)
    assert found.code == 8
    assert f"{out / HEAD} is damaged: it names no plan" in found.err
    assert "hint: remove the folder and run the same command again" in found.err


def test_a_runtime_that_wants_something_else(tmp_path: Path, call: Call) -> None:
    size = replace(TINY, hidden=256, vocabulary=1024, inter=1024, expert_inter=256, mtp=0)
    model = write_model(tmp_path / "model", deepseek(size), deepseek_config(size))
    fits = DATA / "runtime_manifests" / "v3_tp4_dp2_ep4_w8a8.json"
    words = ("--model", model, "--plan", "--tp", 4, "--dp", 2, "--ep", 4, "--expect", fits)
    assert call(*words).code == 0
    found = call(*words, "--class", "fused_qkv_a=attention")
    assert found.code == 2
    first = "8 parameters differ, first model.layers.0.self_attn.fused_qkv_a_proj_with_mqa.weight: "
    assert f"{first}plan I8 [24, 256], runtime I8 [48, 256]\n  hint: try --class fused_qkv_a=whole\n" in found.err


def test_a_manifest_of_another_model_and_what_is_none(model: Path, tmp_path: Path, call: Call) -> None:
    """No class could make these shapes alike, so none is proposed."""
    other = DATA / "runtime_manifests" / "v3_tp4_dp2_ep4_w8a8.json"
    words = ("--model", model, "--plan", "--tp", 4, "--dp", 2, "--ep", 4, "--expect")
    found = call(*words, other)
    assert found.code == 2
    assert "hint: the manifest is of another model than the checkpoint" in found.err
    assert "--class" not in found.err
    (tmp_path / "m.json").write_text('{"a": 1}')
    assert "m.json is no manifest of a runtime: it has no params\n" in call(*words, tmp_path / "m.json").err
