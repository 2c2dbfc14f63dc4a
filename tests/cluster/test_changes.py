"""What a second `up`, a killed controller and a rollback make of what runs, over real sshd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.deployments import Events, engines, write_inventory
from tests.kit.hosts import Lab
from tests.kit.labhost import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(150)]
DIFFERS, UNCONFIRMED = 1, 8


def two_instances(lab: Lab, folder: Path, **env: str) -> Path:
    """Write a profile with an instance of its own on each of two hosts."""
    write_inventory(lab, folder)
    path = folder / "two.yaml"
    path.write_text(
        f"""\
version: 1
name: two
topology: native
platform: cpu
inventory: inventory.yaml
model: {{path: /models/none, served_name: two}}
engine:
  executable: rehearsal
  flags: {{max-total-tokens: 8192}}
  env: {json.dumps(env)}
native:
  a: {{hosts: n01, parallel: {{tp: 1}}}}
  b: {{hosts: n02, parallel: {{tp: 1}}}}
health: {{timeout: 60s, stall: 40s, grace: 5s}}
"""
    )
    return path


def well(lab: Lab, *words: str) -> Events:
    ended = lab.sgdeploy(*words, "--json")
    assert ended.returncode == 0, ended.stderr
    return Events.read(ended.stdout)


def running(lab: Lab) -> dict[str, list[int]]:
    return {host.name: engines(host) for host in lab.hosts}


def rows(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    return (json.loads(line) for line in process.stdout)


@pytest.fixture
def two(pair: Lab, tmp_path: Path) -> Iterator[Lab]:
    """Give the hosts, and take down what a test leaves."""
    yield pair
    ended = pair.sgdeploy("down", str(tmp_path / "two.yaml"), "--now")
    assert ended.returncode == 0, ended.stderr


def test_a_changed_profile_restarts_the_instance_that_it_is_about(two: Lab, tmp_path: Path) -> None:
    profile = str(two_instances(two, tmp_path))
    well(two, "up", profile)
    before = running(two)
    assert "two runs as planned and serves at " in two.sgdeploy("up", profile).stderr
    change = ("--set", "native.b.flags.page-size=32")
    assert two.sgdeploy("diff", profile, *change).returncode == DIFFERS
    refused = two.sgdeploy("up", profile, *change)
    assert refused.returncode == UNCONFIRMED
    assert "restart  native/b (1 process on n02)" in refused.stderr
    assert running(two) == before
    well(two, "up", profile, *change, "--yes")
    after = running(two)
    assert after["n01"] == before["n01"]
    assert not {*after["n02"]} & {*before["n02"]}


def test_what_a_killed_controller_leaves_loading_is_taken_up(two: Lab, tmp_path: Path) -> None:
    profile = str(two_instances(two, tmp_path, SGDEPLOY_REHEARSE_SPEED="0.5"))
    with two.popen("up", profile, "--json") as process:
        next(row for row in rows(process) if row["event"] == "rank" and row["state"] == "loading")
        process.kill()
    before = {name: pids[0] for name, pids in running(two).items()}
    events = well(two, "up", profile)
    assert {name: pids[0] for name, pids in running(two).items()} == before
    assert not list(events.of("replan")), "nothing of it had to be replaced"
    assert events.one("outcome")["outcome"] == "ready"


def test_what_a_killed_controller_leaves_broken_is_replaced_and_the_rest_taken_up(two: Lab, tmp_path: Path) -> None:
    profile = str(two_instances(two, tmp_path, SGDEPLOY_REHEARSE_SPEED="0.5"))
    with two.popen("up", profile, "--json") as process:
        next(row for row in rows(process) if row["event"] == "rank" and row["state"] == "loading")
        process.kill()
    before = running(two)
    for pid in before["n02"]:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: engines(two.host("n02")) == [], "the end of the instance on n02")
    events = well(two, "up", profile)
    (told,) = events.of("replan")
    assert {unit["unit"]: unit["fate"] for unit in told["units"]} == {"native/a": "keep", "native/b": "start"}
    assert "killed by SIGKILL (9)" in told["units"][1]["reasons"][0]
    assert running(two)["n01"][0] == before["n01"][0]


def test_a_rollback_after_down_from_a_controller_that_knows_the_profile_alone(two: Lab, tmp_path: Path) -> None:
    profile = str(two_instances(two, tmp_path))
    well(two, "up", profile)
    well(two, "up", profile, "--set", "native.b.flags.page-size=32", "--yes")
    before = running(two)
    well(two, "rollback", "two", "--yes")
    after = running(two)
    assert (after["n01"] == before["n01"], after["n02"] == before["n02"]) == (True, False)
    assert two.sgdeploy("diff", profile).returncode == 0
    well(two, "down", "two")
    told = json.loads(two.sgdeploy("history", profile, "--json").stdout)
    ready = [entry["plan"] for entry in told if entry["ready"]]
    assert ready[0] == ready[2] != ready[1]
    well(two, "rollback", profile, "--to", ready[1])
    assert two.sgdeploy("diff", profile, "--set", "native.b.flags.page-size=32").returncode == 0
