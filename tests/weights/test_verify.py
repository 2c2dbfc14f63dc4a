"""``verify``: on any machine, without the checkpoint, every kind of damage is found and named."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sgdeploy.weights.cut.manifest import FILES, HEAD
from tests.weights.conftest import Call
from tests.weights.writing import write

PART = "model-rank-6-part-1.safetensors"


@pytest.fixture
def out(pristine: Path, tmp_path: Path) -> Path:
    """Give a split whose checkpoint is elsewhere."""
    write(pristine, tmp_path / "out")
    return tmp_path / "out"


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[-1] ^= 1
    path.write_bytes(body)


def test_a_split_that_is_right(out: Path, tmp_path: Path, call: Call) -> None:
    moved = shutil.copytree(out, tmp_path / "moved")
    found = call("verify", moved)
    assert (found.code, found.out) == (0, "")
    assert "verified: 40 files of ranks 0-7 fit the manifest in" in found.err


@pytest.mark.parametrize(
    ("harm", "messages"),
    [
        (lambda out: flip(out / PART), [f"{PART} sha256 differs from manifest ("]),
        (lambda out: os.truncate(out / PART, 100), [f"{PART} has 100 bytes, the manifest says 14168"]),
        (lambda out: (out / PART).unlink(), [f"{PART} is in the manifest and is not there"]),
        (lambda out: flip(out / "mtp" / PART), [f"mtp/{PART} sha256 differs from manifest ("]),
        (lambda out: flip(out / "config.json"), ["config.json sha256 differs from manifest ("]),
        (
            lambda out: flip(out / "model-rank-1-part-0.safetensors"),
            [
                "model-rank-1-part-0.safetensors sha256 differs from manifest (",
                "model-rank-5-part-0.safetensors sha256 differs from manifest (",
            ],
        ),
        (
            lambda out: (out / "model-rank-0-part-7.safetensors").touch(),
            ["model-rank-0-part-7.safetensors is not in the manifest and would be loaded as well"],
        ),
        (
            lambda out: (out / "model-rank-2-part-1.safetensors").replace(out / PART),
            ["model-rank-2-part-1.safetensors is in the manifest and is not", f"{PART} sha256 differs"],
        ),
    ],
)
def test_every_kind_of_damage(out: Path, call: Call, harm: Callable[[Path], object], messages: list[str]) -> None:
    harm(out)
    found = call("verify", out)
    assert found.code == 8
    for message in messages:
        assert f"error: {message}" in found.err
    assert f"{len(messages)} error" in found.err


def test_replicas_that_were_mixed_up(out: Path, call: Call) -> None:
    """Ranks 1 and 2 hold other bytes; a link to the wrong one has the right size."""
    target = out / "model-rank-1-part-0.safetensors"
    target.unlink()
    os.link(out / "model-rank-2-part-0.safetensors", target)
    found = call("verify", out)
    assert found.code == 8
    assert "error: model-rank-1-part-0.safetensors sha256 differs" in found.err
    assert "1 error\n" in found.err


def test_a_list_that_was_changed(out: Path, call: Call) -> None:
    path = out / FILES
    path.write_text(path.read_text().replace("14168", "14169"))
    found = call("verify", out)
    assert found.code == 8
    assert f"{path} does not belong to {HEAD}: its SHA-256 is" in found.err


def test_a_head_that_is_damaged(out: Path, call: Call) -> None:
    (out / HEAD).write_text("{")
    assert (call("verify", out).code, f"{out / HEAD} is damaged" in call("verify", out).err) == (8, True)


def test_what_is_no_split(out: Path, tmp_path: Path, call: Call) -> None:
    found = call("verify", tmp_path)
    assert found.code == 2
    assert f"{tmp_path} holds no split: there is no {HEAD}" in found.err
    part = call("verify", out / "mtp")
    assert part.code == 2
    assert f"is a part of a split (its folder mtp)\n  hint: verify {out.resolve()}" in part.err


def test_sizes_alone_where_nothing_was_hashed(pristine: Path, tmp_path: Path, call: Call) -> None:
    out = tmp_path / "plain"
    assert call("--model", pristine, "--out", out, "--scheme", "kunpeng", "--tp", 8, "--no-hash").code == 0
    found = call("verify", out)
    assert found.code == 0
    assert "of them have no hash there, their sizes alone were compared" in found.err
    assert {entry["sha256"] for path, entry in json.loads((out / FILES).read_text()).items() if "rank" in path} == {
        None
    }
