"""Logs in files: found in folders, numbered as an editor does, and of any size in little memory."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from sgdeploy.deploy.logfiles import BEGIN, END, LINE, logs_in
from sgdeploy.diagnose.judge import diagnose
from sgdeploy.errors import UsageError

CAUSE = "sglang serve: error: unrecognized arguments: --attention-backnd torch_native\n"


def test_a_folder_gives_its_logs_with_short_names(tmp_path: Path) -> None:
    for name in ("n0.log", "n1.out", "README.md"):
        (tmp_path / name).write_text("x\n")
    assert [log.process for log in logs_in([str(tmp_path)])] == ["n0", "n1"]


def test_logs_of_one_name_in_two_folders_are_told_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "n0.log").write_text("x\n")
    assert [log.process for log in logs_in([str(tmp_path)])] == ["a/n0", "b/n0"]


def test_the_middle_of_a_large_log_is_left_out_and_its_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "n0.log"
    count = (BEGIN + END) // 10 + 200_000
    path.write_text("".join(f"{number:09d}\n" for number in range(1, count + 1)) + CAUSE)
    (log,) = logs_in([str(path)])
    lines = list(log.lines)
    assert lines[0] == (1, "000000001")
    assert len(lines) < count
    assert [text for number, text in lines[:-1] if int(text) != number and len(text) == 9] == []
    assert lines[-1] == (count + 1, CAUSE.rstrip())


def test_a_log_of_a_gigabyte_without_newline_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "n0.log"
    with path.open("wb") as stream:
        os.truncate(stream.fileno(), 1 << 30)
        stream.seek(0, os.SEEK_END)
        stream.write(b"\n" + CAUSE.encode())
    tracemalloc.start()
    found = diagnose(logs_in([str(path)]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.first is not None
    assert (found.first.rule, found.first.evidence[0].line) == ("unknown-flag", 2)
    assert peak < 32 << 20


def test_a_line_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "n0.log"
    path.write_text("x" * (LINE + 10))
    assert [len(text) for _, text in logs_in([str(path)])[0].lines] == [LINE]


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "n0.log"
    path.write_bytes(b"\xff\xfe\x00\n" + CAUSE.encode())
    assert diagnose(logs_in([str(path)])).findings[0].rule == "unknown-flag"


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "empty").mkdir()
    for word, message in (("none.log", "cannot be read"), ("pipe.log", "is no file"), ("empty", "holds no log")):
        with pytest.raises(UsageError, match=message):
            logs_in([str(tmp_path / word)])
