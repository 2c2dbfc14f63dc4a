"""`up` and `diff` where something runs already, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from tests.local.kit import LIMIT, NAME, Ground, terminal, until, wait_until

pytestmark = pytest.mark.timeout(300)


def test_what_runs_as_planned_is_proven_and_left_alone(ground: Ground) -> None:
    profile = str(ground.profile())
    ground.well("up", profile)
    before = ground.pids()
    assert ground.run("diff", profile).returncode == 0
    again = ground.run("up", profile)
    assert again.returncode == 0, again.stderr
    assert f"{NAME} runs as planned and serves at http://{ground.host(1)}:30000: nothing to do" in again.stderr
    assert "completion: " in again.stderr
    assert ground.pids() == before


def test_a_changed_instance_restarts_after_a_yes_and_the_other_one_goes_on(ground: Ground) -> None:
    profile = str(ground.profile())
    ground.well("up", profile)
    before = ground.pids()
    change = ("--set", "native.b.flags.page-size=32")

    found = ground.run("diff", profile, *change)
    assert found.returncode == 1
    assert f"native/b (1 process on {ground.host(3)})" in found.stdout
    assert "--page-size  nothing → 32" in found.stdout
    told = json.loads(ground.run("diff", profile, *change, "--json").stdout)
    assert {unit["unit"]: unit["fate"] for unit in told["units"]} == {"native/a": "keep", "native/b": "restart"}

    refused = ground.run("up", profile, *change)
    assert refused.returncode == 8
    assert "native/b of again may be serving and would be stopped; nothing was changed" in refused.stderr
    assert "--yes" in refused.stderr
    assert ground.pids() == before

    ground.well("up", profile, *change, "--yes")
    after = ground.pids()
    changed = {name for name, pid in after.items() if before[name] != pid}
    assert changed == {f"native/b/{ground.host(3)}"}
    assert ground.run("diff", profile, *change).returncode == 0
    assert ground.run("diff", profile).returncode == 1


def test_a_question_on_a_terminal(ground: Ground) -> None:
    profile = str(ground.profile())
    ground.well("up", profile)
    before = ground.pids()
    for answer, code in ((b"no\n", 8), (b"yes\n", 0)):
        with terminal() as (ours, theirs):
            words = ("up", profile, "--set", "native.b.flags.page-size=32")
            process = ground.popen(*words, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs)
            shown = b""
            while b"[y/N]" not in shown:
                shown += os.read(ours, 4096)
            os.write(ours, answer)
            end = time.monotonic() + LIMIT
            while process.poll() is None:
                assert time.monotonic() < end
                os.set_blocking(ours, False)
                try:
                    shown += os.read(ours, 4096)
                except BlockingIOError:
                    time.sleep(0.02)
            assert process.returncode == code, shown.decode()
        assert (ground.pids() == before) is (code == 8)


def test_a_question_that_is_interrupted_changes_nothing(ground: Ground) -> None:
    profile = str(ground.profile())
    ground.well("up", profile)
    before = ground.pids()
    with terminal() as (ours, theirs):
        words = ("up", profile, "--set", "native.b.flags.page-size=32")
        process = ground.popen(*words, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130
    assert ground.pids() == before


def test_an_instance_that_lost_a_rank_is_replaced_alone(ground: Ground) -> None:
    profile = str(ground.profile())
    ground.well("up", profile)
    before = ground.pids()
    victim = f"native/a/{ground.host(2)}"
    os.kill(before[victim], signal.SIGKILL)
    wait_until("the exit code of the rank", lambda: ground.run("diff", profile).returncode == 1)
    events = ground.well("up", profile)
    (told,) = events.of("replan")
    fates = {unit["unit"]: unit["fate"] for unit in told["units"]}
    assert fates["native/b"] == "keep"
    assert fates["native/a"] in {"start", "restart"}, "its leader may have gone by now, having lost a peer"
    assert "killed by SIGKILL (9)" in told["units"][0]["reasons"][0]
    after = ground.pids()
    assert {name for name, pid in after.items() if before[name] != pid} == {n for n in after if "/a/" in n}


def test_a_controller_that_is_killed_in_mid_load_leaves_what_the_next_one_takes_up(ground: Ground) -> None:
    profile = str(ground.profile(SGDEPLOY_REHEARSE_SPEED="1"))
    process = ground.popen("up", profile, "--json")
    until(process, "loading", lambda event: event["event"] == "rank" and event["state"] == "loading")
    process.kill()
    process.wait(LIMIT)
    before = ground.pids()
    assert len(before) == 3
    events = ground.well("up", profile)
    assert ground.pids() == before
    assert events.one("outcome")["outcome"] == "ready"


def test_a_controller_that_is_killed_in_mid_start_leaves_what_the_next_one_replaces(ground: Ground) -> None:
    """Of instance a only one rank was started: what is half there can never serve."""
    profile = str(ground.profile(SGDEPLOY_REHEARSE_SPEED="1"))
    process = ground.popen("up", profile, "--json")
    started: set[str] = set()
    while len(started) < 3:
        started.add(until(process, "a start", lambda e: e["event"] == "host" and e["state"] == "started")["host"])
    process.kill()
    process.wait(LIMIT)
    before = ground.pids()
    rank = f"native/a/{ground.host(2)}"
    os.kill(before[rank], signal.SIGKILL)  # before it has met its leader, which goes on waiting for it
    (record,) = (ground.run_folder(2) / "processes").glob("*.json")
    wait_until("the end of the keeper", lambda: not ground.keepers(2))
    record.unlink()
    up = ground.run("up", profile)
    assert up.returncode == 0, up.stderr
    assert f"{rank} of it was never started" in up.stderr
    after = ground.pids()
    assert {name for name, pid in after.items() if before[name] != pid} == {n for n in after if "/a/" in n}


def test_what_the_profile_has_no_more_is_stopped_and_what_it_has_anew_starts(ground: Ground) -> None:
    path = ground.profile()
    ground.well("up", str(path))
    before = ground.pids()
    path.write_text(path.read_text().replace("  b: {hosts: b", "  c: {hosts: b"))
    events = ground.well("up", str(path), "--yes")
    (told,) = events.of("replan")
    fates = {unit["unit"]: unit["fate"] for unit in told["units"]}
    assert fates == {"native/a": "keep", "native/c": "start", "native/b": "stop"}
    after = ground.pids()
    assert {name for name in after if name not in before} == {f"native/c/{ground.host(3)}"}
    assert {name for name in before if name not in after} == {f"native/b/{ground.host(3)}"}
