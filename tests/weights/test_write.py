"""What a split leaves on the disk: the planned bytes, links, a manifest, the files a runtime needs and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sgdeploy.weights.cut.manifest import FILES, HEAD, Head
from sgdeploy.weights.cut.sizes import Sizes
from sgdeploy.weights.disk.request import Replicas
from sgdeploy.weights.disk.split import How
from sgdeploy.weights.disk.verify import verify
from tests.weights.planning import DATA, wish
from tests.weights.tiny import fingerprints, golden, make
from tests.weights.writing import EIGHT, hashes, never, unheard, write

PART = "model-rank-{}-part-0.safetensors"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one checkpoint for all."""
    return make("dsv3-tiny", tmp_path_factory.mktemp("weights") / "model")


def head_of(out: Path) -> Head:
    return Head.model_validate_json((out / HEAD).read_text())


def verified(out: Path) -> None:
    assert verify(out, 2, unheard, never) is not None


@pytest.mark.parametrize("how", [How(1), How(2), How(2, hashed=False), How(2, hashed=False, synced=True)])
def test_the_bytes_on_the_disk_are_those_of_the_reference(model: Path, tmp_path: Path, how: How) -> None:
    out = tmp_path / "out"
    wanted = wish("kunpeng-socket", Sizes(tp=8, ep=8), {"fused_qkv_a": "socket:4"}, layout="kunpeng_state")
    done = write(model, out, wanted, how=how)
    assert done.complete
    assert done.found == 0
    assert fingerprints(out) == golden(DATA / "D_dsv3-tiny_kunpeng_state_a8_s4.json")
    verified(out)


def test_what_data_parallel_replicas_share_is_written_once(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(model, out)
    for rank in range(4):
        assert (out / PART.format(rank)).samefile(out / PART.format(rank + 4))
    assert (out / PART.format(0)).stat().st_nlink == 2
    assert not (out / PART.format(0)).samefile(out / PART.format(1))


@pytest.mark.parametrize("replicas", ["link", "symlink", "copy"])
def test_every_kind_of_replica_holds_the_same_bytes(model: Path, tmp_path: Path, replicas: Replicas) -> None:
    out = tmp_path / "out"
    write(model, out, replicas=replicas)
    assert (out / PART.format(4)).is_symlink() == (replicas == "symlink")
    assert (out / PART.format(0)).read_bytes() == (out / PART.format(4)).read_bytes()
    verified(out)


def test_what_is_cut_over_all_ranks_lies_in_a_part_of_its_own(model: Path, tmp_path: Path) -> None:
    """So that the rest of the file can still be shared."""
    out = tmp_path / "out"
    write(model, out, wish("kunpeng", EIGHT, {"lm_head": "global"}, mtp="drop"))
    assert (out / PART.format(0)).samefile(out / PART.format(4))
    own = [out / f"model-rank-{rank}-part-2.safetensors" for rank in range(8)]
    assert len({path.read_bytes() for path in own}) == 8


def test_only_what_a_runtime_reads_goes_along(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(model, out)
    others = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file() and "rank" not in path.name}
    along = {"config.json", "tokenizer.json", "generation_config.json", "configuration_deepseek.py"}
    assert others == along | {f"mtp/{name}" for name in along} | {HEAD, FILES, f"mtp/{HEAD}"}
    assert (out / "config.json").read_bytes() == (model / "config.json").read_bytes()


def test_the_manifest_says_what_it_is_and_from_what(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(model, out)
    head = head_of(out)
    assert (head.scheme, head.layout, head.tp, head.dp, head.ep, head.pp) == ("kunpeng", "sharded_state", 8, 2, 8, 1)
    assert (head.ranks, head.folder, head.mtp) == ("0-7", "", "separate")
    assert head.rules["fused_qkv_a"] == "attention"
    assert [(each.name, each.size) for each in head.sources] == [
        (path.name, path.stat().st_size) for path in sorted(model.glob("*.safetensors"))
    ]
    assert head_of(out / "mtp").folder == "mtp"
    files = json.loads((out / FILES).read_text())
    assert files[PART.format(3)]["sha256"] == hashes(out)[PART.format(3)]
    assert head.files == len(files)


def test_a_node_makes_its_own_part_and_others_can_follow(model: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    write(model, whole)
    write(model, parts, ranks="0-3")
    assert head_of(parts).ranks == "0-3"
    assert not (parts / PART.format(4)).exists()
    verified(parts)
    done = write(model, parts, ranks="4-7")
    assert done.found == 0
    assert head_of(parts).ranks == "0-7"
    verified(parts)
    assert fingerprints(parts) == fingerprints(whole)


def test_a_second_run_finds_everything_done(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(model, out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("model-rank-*")}
    done = write(model, out)
    assert done.found == done.of_files == 32
    assert {path: path.stat().st_mtime_ns for path in out.glob("model-rank-*")} == before


def test_a_file_that_was_touched_is_written_again(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(model, out)
    good = hashes(out)
    part = out / "model-rank-5-part-1.safetensors"
    part.write_bytes(b"x" + part.read_bytes())
    assert write(model, out).found == 31
    assert hashes(out) == good


def test_stages_have_folders_of_their_own(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = write(model, out, wish("upstream", Sizes(tp=2, ep=2, pp=2), mtp="drop"))
    assert done.folders == ("pp0", "pp1")
    first, last = fingerprints(out / "pp0")["model-rank-0"], fingerprints(out / "pp1")["model-rank-0"]
    assert {name.split(".")[2] for name in first if ".layers." in name} == {"0", "1"}
    assert {name.split(".")[2] for name in last if ".layers." in name} == {"2", "3"}
    assert "model.embed_tokens.weight" in first.keys() - last.keys()
    assert {"model.norm.weight", "lm_head.weight"} <= last.keys() - first.keys()
    assert (out / "pp1" / "config.json").exists()
    assert not (out / "config.json").exists()
    assert head_of(out / "pp1").folder == "pp1"
    verified(out)


def test_the_split_changes_with_the_checkpoint(model: Path, tmp_path: Path) -> None:
    """The digest covers the headers of all sources."""
    write(model, tmp_path / "one")
    other = make("dsv3-tiny", tmp_path / "other")
    (other / "config.json").write_text(json.dumps({**json.loads((other / "config.json").read_text()), "extra": 1}))
    write(other, tmp_path / "two")
    assert head_of(tmp_path / "one").plan != head_of(tmp_path / "two").plan
    assert head_of(tmp_path / "one").sources == head_of(tmp_path / "two").sources


def test_the_same_wish_gives_the_same_plan(model: Path, tmp_path: Path) -> None:
    write(model, tmp_path / "one")
    write(model, tmp_path / "two", replace(wish("kunpeng", EIGHT), classes={}))
    assert head_of(tmp_path / "one").plan == head_of(tmp_path / "two").plan
    assert hashes(tmp_path / "one") == hashes(tmp_path / "two")
