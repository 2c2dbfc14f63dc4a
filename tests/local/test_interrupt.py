"""Ctrl-C on real commands, once and twice, on a terminal and by signal; and `wait` afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.local.kit import LIMIT, NAME, Ground, terminal, until

pytestmark = pytest.mark.timeout(300)

OWN_TERMINAL = (
    "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
"""Makes the terminal on stdin the controlling one of a new session, as a login does."""


def loading(process: subprocess.Popen[str]) -> None:
    until(process, "loading", lambda event: event["event"] == "rank" and event["state"] == "loading")


def locked_by(ground: Ground) -> str:
    return str(json.loads(ground.run("status", NAME, "--json").stdout)["locked_by"])


def test_once_stops_waiting_and_wait_goes_on(ground: Ground) -> None:
    profile = str(ground.profile(SGDEPLOY_REHEARSE_SPEED="1"))
    process = ground.popen("up", profile, "--json")
    loading(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "stopped waiting; what was started keeps running and is on record" in err
    assert "`sgdeploy wait again` waits on" in err
    before = ground.pids()
    assert len(before) == 3
    assert locked_by(ground) == ""
    waited = ground.well("wait", NAME)
    assert waited.one("outcome")["outcome"] == "ready"
    assert waited.one("completion")["tokens"] > 0
    assert ground.pids() == before


def test_ctrl_c_on_a_terminal_reaches_us_and_none_of_the_ranks(ground: Ground) -> None:
    profile = str(ground.profile(SGDEPLOY_REHEARSE_SPEED="1"))
    with terminal() as (ours, theirs):
        process = ground.popen(
            *("up", profile, "--json"),
            before=(sys.executable, "-c", OWN_TERMINAL),
            stdin=theirs,
            start_new_session=True,
        )
        loading(process)
        os.write(ours, b"\x03")
        assert process.wait(LIMIT) == 130
    assert ground.well("wait").one("outcome")["outcome"] == "ready"


def test_twice_leaves_at_once_and_the_next_command_finds_everything(ground: Ground) -> None:
    profile = str(ground.profile(SGDEPLOY_REHEARSE_SPEED="1"))
    process = ground.popen("up", profile, "--json")
    until(process, "a start", lambda event: event["event"] == "host" and event["state"] == "started")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 130
    assert ground.well("up", profile).one("outcome")["outcome"] == "ready"
    assert locked_by(ground) == ""


def test_wait_after_no_wait_and_of_nothing(ground: Ground) -> None:
    profile = str(ground.profile())
    assert ground.run("wait", profile).returncode == 9
    assert ground.well("up", profile, "--no-wait").one("outcome")["outcome"] == "started"
    assert ground.well("wait", profile).one("outcome")["outcome"] == "ready"


def test_wait_names_who_has_failed_and_stops_nothing(ground: Ground) -> None:
    profile = str(ground.profile(SGDEPLOY_REHEARSE_SPEED="1", SGDEPLOY_REHEARSE_FAIL="hang@load"))
    process = ground.popen("up", profile, "--json")
    loading(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 130
    victim = f"native/b/{ground.host(3)}"
    os.kill(ground.pids()[victim], signal.SIGKILL)
    waited = ground.run("wait", profile)
    assert waited.returncode == 6
    assert f"{victim} failed on {ground.host(3)}: killed by SIGKILL (9)" in waited.stderr
    assert "stopped again" not in waited.stderr
