"""The worker as data and as a traveller: a job survives JSON, its code is Python 3.7 and needs nothing of ours."""

from __future__ import annotations

import ast
import errno
import io
import json
import os
import zipfile
from pathlib import Path

import pytest

import sgdeploy.weights.worker
from sgdeploy.errors import StateError
from sgdeploy.weights.disk.parcel import parcel
from sgdeploy.weights.disk.refusals import Target, explain
from sgdeploy.weights.disk.split import How, Split
from sgdeploy.weights.errors import ReplicaError, TargetError
from sgdeploy.weights.worker import copy, sources
from sgdeploy.weights.worker.job import Job, RefusedError, counted
from sgdeploy.weights.worker.journal import Entry, Journal
from sgdeploy.weights.worker.run import run
from tests.weights.writing import hashes, ignore, never, prepared, write

SOURCES = sorted(Path(sgdeploy.weights.worker.__file__).parent.glob("*.py"))
LATER = ("missing_ok", "removeprefix", "removesuffix", "cached_property", "slots=True", "dirs_exist_ok", ".readlink()")
"""What Python 3.7 does not have."""


def test_the_parcel_holds_all_of_it() -> None:
    with zipfile.ZipFile(io.BytesIO(parcel())) as archive:
        names = set(archive.namelist())
    assert names == {f"worker/{path.name}" for path in SOURCES} | {"__main__.py"}
    assert parcel() == parcel()


@pytest.mark.parametrize("source", SOURCES, ids=[path.name for path in SOURCES])
def test_it_is_python_3_7_alone(source: Path) -> None:
    text = source.read_text()
    tree = ast.parse(text, feature_version=(3, 7))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1 or not str(node.module).startswith("sgdeploy")
        assert not isinstance(node, ast.Import) or not any(name.name.startswith("sgdeploy") for name in node.names)
    assert [word for word in LATER if word in text] == []


def test_a_job_written_down_gives_the_same_files(pristine: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write(pristine, here)
    ready = prepared(pristine, there)
    text = json.dumps(Split(ready, there, How(2)).job(ready.files).to_json())
    assert run(Job.from_json(json.loads(text)), ignore, never).complete
    assert hashes(there) == hashes(here)


def test_numbers_are_written_as_ranges() -> None:
    assert [counted(numbers) for numbers in ([], [3], [0, 1, 2], [8, 0, 1, 9, 3])] == ["", "3", "0-2", "0-1,3,8-9"]


@pytest.mark.parametrize("missing", [("copy_file_range",), ("copy_file_range", "sendfile")])
def test_it_copies_without_the_help_of_the_kernel(
    pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    """Old Pythons lack copy_file_range, and some file systems refuse both."""
    write(pristine, tmp_path / "good", how=How(1, hashed=False))

    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, "cross-device")

    monkeypatch.setattr(copy, "DIRECT", 1)
    for name in missing:
        monkeypatch.setattr(os, name, refuse)
    write(pristine, tmp_path / "out", how=How(1, hashed=False))
    assert hashes(tmp_path / "out") == hashes(tmp_path / "good")


def test_a_shard_that_shrinks_while_it_is_read(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = prepared(model, tmp_path / "out")
    monkeypatch.setattr(sources, "check", lambda _: None)  # it shrinks after that
    for shard in model.glob("*.safetensors"):
        shard.write_bytes(shard.read_bytes()[:30_000])
    with pytest.raises(StateError, match="became shorter while it was read"):
        Split(ready, tmp_path / "out", How(2)).run(ignore, never)
    assert not list((tmp_path / "out").glob("*.partial"))


def test_a_disk_that_fills_up(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, calls = Journal.record, [0]

    def full(log: Journal, path: str, size: int, sha256: str | None) -> Entry:
        calls[0] += 1
        if calls[0] > 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return record(log, path, size, sha256)

    monkeypatch.setattr(Journal, "record", full)
    with pytest.raises(TargetError, match="no space is left on the file system of") as raised:
        write(pristine, tmp_path / "out")
    assert "what is finished is kept" in str(raised.value.hint)
    monkeypatch.undo()
    assert write(pristine, tmp_path / "out").found >= 5


def test_a_file_system_without_links(pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(ReplicaError) as raised:
        write(pristine, tmp_path / "out")
    assert "cannot link model-rank-4-part-0.safetensors to model-rank-0-part-0.safetensors" in str(raised.value)
    assert write(pristine, tmp_path / "out", replicas="copy").found >= 16


def test_a_refusal_of_a_kind_that_is_not_known_keeps_its_evidence() -> None:
    error = explain("odd", {"why": 3}, Target("/out", {}))
    assert "refused: odd {'why': 3}" in str(error)
    assert isinstance(RefusedError("odd", why=3), Exception)
