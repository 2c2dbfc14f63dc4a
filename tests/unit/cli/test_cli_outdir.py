"""`plan --out` writes a folder of scripts and harms no folder that is not its own."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sgdeploy.cli.outdir import MARK, write_tree
from sgdeploy.errors import UsageError
from tests.unit.cli.conftest import Call

FILES = {"README.txt": "read me\n", "n01/start.sh": "#!/bin/bash\n", "n01/scripts/r00.sh": "exec true\n"}


def listed(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MARK}


def test_a_new_folder(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"
    assert write_tree(folder, FILES) == 3
    assert {name: (folder / name).read_text() for name in FILES} == FILES
    assert stat.S_IMODE((folder / "n01/start.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "README.txt").stat().st_mode) == 0o644


def test_our_own_folder_is_replaced_and_what_others_put_there_stays(tmp_path: Path) -> None:
    write_tree(tmp_path / "out", FILES)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    write_tree(tmp_path / "out", {"README.txt": "new\n"})
    assert listed(tmp_path / "out") == {"README.txt", "notes.txt"}


@pytest.mark.parametrize("name", ["notes.txt", ".hidden"])
def test_a_folder_of_others_is_refused_and_not_touched(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / name).write_text("mine")
    with pytest.raises(UsageError, match="is not empty and was not written by sgdeploy"):
        write_tree(folder, FILES)
    assert listed(folder) == {name}


def test_a_list_that_was_tampered_with_removes_nothing_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    write_tree(tmp_path / "out", FILES)
    (tmp_path / "out" / MARK).write_text(f"../outside\n{outside}\n\n.\n")
    write_tree(tmp_path / "out", FILES)
    assert outside.read_text() == "mine"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(UsageError, match="is not a folder"):
        write_tree(tmp_path / "out", FILES)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written: Not a directory"):
        write_tree(tmp_path / "file" / "out", FILES)


def test_the_command(call: Call, home: Path) -> None:
    found = call("plan", "tiny.yaml", "--out", str(home / "out"))
    assert (found.code, found.err) == (0, f"{home / 'out' / 'README.txt'} says how to run them by hand\n")
    assert found.out == f"{len(listed(home / 'out'))} files written to {home / 'out'}\n"
    assert {"README.txt", "a1/start.sh", "a2/stop.sh"} <= listed(home / "out")
    (home / "other").mkdir()
    (home / "other" / "file").write_text("")
    refused = call("plan", "tiny.yaml", "--out", str(home / "other"))
    assert (refused.code, "name a new folder" in refused.err) == (2, True)
