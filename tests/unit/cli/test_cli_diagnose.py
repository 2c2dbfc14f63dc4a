"""`sgdeploy diagnose` as typed: data on stdout, exit codes, files against names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.diagnose.cases import LOGS
from tests.unit.cli.conftest import Call


@pytest.fixture(autouse=True)
def logs(home: Path) -> Path:
    """Put recorded logs into the working folder."""
    for case in ("ok-pd", "follower-wrong-rendezvous"):
        shutil.copytree(LOGS / case, home / "work" / case)
    return home / "work"


def test_a_cause_is_data_and_ends_with_6(call: Call) -> None:
    found = call("diagnose", "follower-wrong-rendezvous")
    assert (found.code, found.err) == (6, "")
    first, *rest = found.out.splitlines()
    assert first.startswith("cause: n1: ranks of one instance were given different --dist-init-addr")
    assert any(line.startswith("  follower-wrong-rendezvous/n1.log:") for line in rest)
    assert any(line.startswith("  next: ") for line in rest)
    assert "follows: n0: only 1 of 2 came to the rendezvous" in found.out
    assert "rule arguments-differ" in found.out


def test_nothing_wrong_ends_with_0_and_shows_the_phases(call: Call) -> None:
    found = call("diagnose", "ok-pd")
    assert found.code == 0
    assert found.out.startswith("nothing wrong found in 2 logs\n")
    assert "loading weights → weights loaded → KV cache allocated" in found.out


def test_files_are_taken_as_well_as_folders(call: Call) -> None:
    found = call("diagnose", "follower-wrong-rendezvous/n0.log", "follower-wrong-rendezvous/n1.log", "--json")
    assert found.code == 6
    body = json.loads(found.out)
    assert body["wrong"] is True
    assert [each["rule"] for each in body["findings"]] == ["arguments-differ"]
    assert {each["process"] for each in body["seen"]} == {"n0", "n1"}


def test_what_is_neither_log_nor_name_is_said(call: Call) -> None:
    for words, message in ((["none.log"], "none.log cannot be read"), (["nobody"], "no deployment named nobody")):
        found = call("diagnose", *words)
        assert (found.code, found.out) == (2, "")
        assert message in found.err


LONG = "n" * 300


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([LONG], f"no deployment named {LONG}"),
        ([f"{LONG}.log"], f"{LONG}.log cannot be read"),
        ([f"logs/{LONG}", "x.log"], "cannot be read"),
        ([""], "an empty word names no log and no deployment"),
        (["ok-pd", ""], "an empty word names no log and no deployment"),
    ],
)
def test_words_that_can_name_nothing_are_refused(call: Call, words: list[str], message: str) -> None:
    found = call("diagnose", *words)
    assert (found.code, found.out) == (2, "")
    assert message in found.err


def test_what_is_no_log_is_told_and_not_read_as_one(call: Call, logs: Path) -> None:
    (logs / "program.log").write_bytes(b"\x7fELF\0\0\0\x01" * 1000)
    (logs / "empty.log").write_bytes(b"")
    for name, message in (("program.log", "is no log: it holds NUL bytes"), ("empty.log", "nothing is written in")):
        found = call("diagnose", name)
        assert (found.code, found.out) == (2, "")
        assert message in found.err


def test_a_hole_at_the_begin_of_a_log_hides_nothing(call: Call, logs: Path) -> None:
    log = logs / "ok-pd" / "holed.log"
    log.write_bytes(b"\0" * 5000 + b"[2026-11-29 10:00:00] hello\n")
    assert "is no log" not in call("diagnose", str(log)).err


@pytest.mark.parametrize("command", ["plan", "status", "down", "up", "logs"])
def test_no_name_is_too_long_to_be_unknown(call: Call, command: str) -> None:
    found = call(command, LONG)
    assert found.code == 2
    assert LONG in found.err
