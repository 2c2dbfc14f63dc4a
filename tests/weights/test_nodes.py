"""``--on-nodes``: two nodes, each with its own helper on this machine, make their own parts of one split."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sgdeploy
from sgdeploy.weights.cut.manifest import HEAD
from tests.weights.conftest import Call
from tests.weights.test_big import sparse
from tests.weights.tiny import DeepSeek, deepseek, deepseek_config, fingerprints
from tests.weights.writing import write

ROOT = Path(sgdeploy.__file__).parents[1]
LIMIT = 60.0
PROFILE = """\
version: 1
name: tiny
topology: native
platform: kunpeng-920f
model: {path: /split}
inventory:
  version: 1
  groups:
    rack:
      - {host: n1, connection: local, address: 127.0.1.1}
      - {host: n2, connection: local, address: 127.0.1.2}
node: {run_dir: %s}
engine: {version: kunpeng, launch: rank, flags: {load-format: sharded_state}}
native: {hosts: rack, parallel: {tp: 8}}
"""


@pytest.fixture
def profile(tmp_path: Path, no_leaks: None) -> Path:
    """Write the profile of two nodes; afterwards no program of theirs may run."""
    del no_leaks
    path = tmp_path / "my.yaml"
    path.write_text(PROFILE % (tmp_path / "run"))
    return path


def left_behind(tmp_path: Path) -> set[str]:
    """Name what is left in the run folders; logs, the list of runs, audit and lock may stay."""
    names = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    return names - {"audit.log", "headers.log", "split.log", "runs.json", "lock"}


def test_every_node_makes_its_own_part(pristine: Path, tmp_path: Path, profile: Path, call: Call) -> None:
    found = call("--profile", profile, "--model", pristine, "--out", tmp_path / "out-{host}", "--on-nodes", "--json")
    assert found.code == 0, found.err
    whole = tmp_path / "whole"
    write(pristine, whole)
    expected = fingerprints(whole)
    for host, ranks in (("n1", range(4)), ("n2", range(4, 8))):
        out = tmp_path / f"out-{host}"
        names = {f"model-rank-{rank}" for rank in ranks} | {f"mtp/model-rank-{rank}" for rank in ranks}
        assert fingerprints(out) == {name: expected[name] for name in names}
        assert call("verify", out).code == 0
        assert json.loads((out / HEAD).read_text())["ranks"] == f"{ranks[0]}-{ranks[-1]}"
    ends = {event["host"]: event for event in found.events if event["event"] == "split"}
    assert {host: (event["files"], event["of_files"]) for host, event in ends.items()} == {
        "n1": (16, 16),
        "n2": (16, 16),
    }
    assert found.events[-1]["outcome"] == "split"
    assert left_behind(tmp_path) == set()


def test_the_plan_is_made_from_the_nodes_headers(pristine: Path, tmp_path: Path, profile: Path, call: Call) -> None:
    found = call("--profile", profile, "--model", pristine, "--on-nodes", "--plan", "--json")
    assert found.code == 0, found.err
    assert found.events[-1]["facts"]["tp"] == 8
    assert left_behind(tmp_path) == set()


def test_a_node_that_refuses_is_named_and_the_others_go_on(
    pristine: Path, tmp_path: Path, profile: Path, call: Call
) -> None:
    (tmp_path / "out-n2").mkdir()
    foreign = tmp_path / "out-n2" / "model-rank-4-part-9.safetensors"
    foreign.touch()
    words = ("--profile", profile, "--model", pristine, "--out", tmp_path / "out-{host}", "--on-nodes")
    found = call(*words)
    assert found.code == 3
    assert "1 node could not make their parts" in found.err
    assert f"n2: {foreign} is not from this plan and would be loaded as well" in found.err
    assert call("verify", tmp_path / "out-n1").code == 0
    foreign.unlink()
    assert call(*words).code == 0
    assert call("verify", tmp_path / "out-n2").code == 0


def test_a_node_where_somebody_else_writes(pristine: Path, tmp_path: Path, profile: Path, call: Call) -> None:
    (tmp_path / "out-n2").mkdir()
    with (tmp_path / "out-n2" / ".sgdeploy-split.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = call("--profile", profile, "--model", pristine, "--out", tmp_path / "out-{host}", "--on-nodes")
    assert found.code == 3
    assert f"n2: another split-weights (its pid is not known) is writing to {tmp_path}/out-n2" in found.err


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Write a checkpoint of holes that takes a while to split."""
    size = DeepSeek(hidden=1024, vocabulary=65536, layers=3, dense=2, inter=16384, q_lora=512, mtp=0)
    return sparse(tmp_path / "large", deepseek(size), deepseek_config(size))


def begun(profile: Path, model: Path, tmp_path: Path) -> tuple[list[str], subprocess.Popen[str]]:
    """Start a split on both nodes in a process of its own, and wait for the first file of a node."""
    out = f"{tmp_path}/out-{{host}}"
    words = [sys.executable, "-m", "sgdeploy", "split-weights", "--profile", str(profile), "--model", str(model)]
    words += ["--out", out, "--on-nodes", "--workers", "1"]
    run = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + LIMIT
    while not list(tmp_path.glob("out-n*/model-rank-*-part-0*")):
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < until, "waited for the first file of a node"
        time.sleep(0.01)
    return words, run


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_interruption_and_a_death_go_on_with_the_next_run(
    large: Path, tmp_path: Path, profile: Path, call: Call, number: int, code: int
) -> None:
    """Ctrl-C ends the work in an orderly way; a killed controller leaves it running, and the next one takes over."""
    words, run = begun(profile, large, tmp_path)
    try:
        run.send_signal(number)
        said = run.communicate(timeout=LIMIT)[1]
    finally:
        run.kill()
        run.wait()
    assert run.returncode == code
    if number == signal.SIGINT:
        assert "of 2 nodes done" in said
        assert "hint: run the same command to go on" in said
        assert left_behind(tmp_path) == set()
    again = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert again.returncode == 0, again.stderr
    assert left_behind(tmp_path) == set()
    for host in ("n1", "n2"):
        assert call("verify", tmp_path / f"out-{host}").code == 0


def test_no_such_model(tmp_path: Path, profile: Path, call: Call) -> None:
    found = call("--profile", profile, "--model", tmp_path / "none", "--out", tmp_path / "out", "--on-nodes")
    assert found.code == 2
    assert f"the model folder {tmp_path}/none on n1 does not exist" in found.err
    assert left_behind(tmp_path) == set()


def test_what_does_not_go_together(pristine: Path, tmp_path: Path, profile: Path, call: Call) -> None:
    assert "pass --profile" in call("--model", pristine, "--out", tmp_path / "o", "--on-nodes", "--tp", 8).err
    both = call("--profile", profile, "--model", pristine, "--out", tmp_path / "o", "--on-nodes", "--ranks", "0-3")
    assert (both.code, "--on-nodes gives every node the files of its own ranks" in both.err) == (2, True)
    relative = call("--profile", profile, "--model", "ckpt", "--out", tmp_path / "o", "--on-nodes")
    assert (relative.code, "--model ckpt is a path on the nodes and must be absolute" in relative.err) == (2, True)
