"""The main job on 16 hosts with real sshd: 256 ranks of the shipped Kunpeng profile, with the simulated engine.

Faults of hosts and ranks on the same 16 hosts. Times from a death to its report are printed, never asserted.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.deployments import (
    BEFORE,
    NUMA_NODES,
    Events,
    assert_nothing_left,
    engines,
    hugepages,
    kunpeng_profile,
)
from tests.kit import netns
from tests.kit.hosts import Lab, lent
from tests.kit.labhost import LabHost, wait_until
from tests.kit.matrix import Heard

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

COUNT = 16
RANKS = 256
HOST_FAILED, PROCESS_FAILED = 5, 6


@pytest.fixture(scope="module")
def rack() -> Iterator[Lab]:
    """Sixteen hosts for the whole module; each test leaves them as it found them."""
    with lent(COUNT, disk="128m") as made:
        yield made


@pytest.fixture
def clean(rack: Lab) -> Iterator[Lab]:
    """Prove after the test that no host holds anything of ours."""
    yield rack
    assert_nothing_left([host for host in rack.hosts if is_up(host)])
    assert rack.strays() == []


def events_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what a running command tells, as it tells it."""
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def rank_pid(host: LabHost, rank: int) -> int:
    """Give the pid, as this machine counts, of a rank's main process."""
    file = host.path(f"/var/lib/sgdeploy/dsv3/{host.name}/processes/native-{host.name}-r{rank:02d}.json")
    record = json.loads(file.read_text(encoding="utf-8"))
    return next(proc.pid for proc in host.processes() if proc.inner_pid == record["pid"])


def is_up(host: LabHost) -> bool:
    """Tell whether a host has power."""
    return netns.process(host.pid) is not None


def held(host: LabHost) -> dict[str, int]:
    """Give every file below the run folder and its size."""
    folder = host.path("/var/lib/sgdeploy")
    return {str(file.relative_to(folder)): file.stat().st_size for file in folder.rglob("*") if file.is_file()}


def no_more_engines(lab: Lab) -> None:
    """Prove that no host that has power runs an engine process."""
    for host in lab.hosts:
        assert not is_up(host) or engines(host) == [], host.name


def wait_for_all_but_the_leader(process: subprocess.Popen[str]) -> None:
    """Read events until every rank but one is ready."""
    ready: set[str] = set()
    for event in events_of(process):
        if event["event"] == "rank" and event["state"] == "ready":
            ready.add(event["process"])
        if len(ready) == RANKS - 1:
            return


def test_256_ranks_come_up_show_status_and_go_down(clean: Lab, tmp_path: Path) -> None:
    profile = kunpeng_profile(clean, tmp_path)
    up = clean.sgdeploy("up", str(profile), "--json")
    assert up.returncode == 0, up.stderr
    events = Events.read(up.stdout)
    assert events.one("completion")["tokens"] > 0
    assert events.one("outcome")["outcome"] == "ready"
    ready = {row["process"] for row in events.of("rank") if row["state"] == "ready"}
    assert len(ready) == RANKS
    assert hugepages(clean.hosts[0]) == [0] * 16 + [2020] * 16

    status = clean.sgdeploy("status", "dsv3", "--json")
    assert status.returncode == 0, status.stderr
    shown = json.loads(status.stdout)
    assert shown["state"] == "ready"
    assert [row["state"] for row in shown["processes"]] == ["ready"] * RANKS

    again = clean.sgdeploy("up", str(profile))
    assert again.returncode == 0, again.stderr
    assert "dsv3 runs as planned and serves at " in again.stderr

    down = clean.sgdeploy("down", "dsv3")
    assert down.returncode == 0, down.stderr
    no_more_engines(clean)
    assert hugepages(clean.hosts[0]) == [BEFORE] * NUMA_NODES
    assert clean.sgdeploy("status", str(profile)).returncode == 9
    second = clean.sgdeploy("down", str(profile))
    assert second.returncode == 0
    assert "nothing runs" in second.stderr


def test_a_killed_controller_leaves_a_known_state(clean: Lab, tmp_path: Path) -> None:
    """SIGKILL in mid-load; another controller, which has only the profile, sees everything and ends it."""
    profile = kunpeng_profile(clean, tmp_path, SGDEPLOY_REHEARSE_FAIL="hang@load:n3r3")
    with clean.popen("up", str(profile), "--json") as process:
        for event in events_of(process):
            if event["event"] == "rank" and event["state"] == "loading":
                break
        process.kill()
    other = tmp_path / "elsewhere"
    shutil.copytree(clean.home / ".ssh", other / ".ssh")
    env = {"HOME": str(other)}

    def nobody_works_on_it() -> bool:
        seen = clean.sgdeploy("status", str(profile), "--json", env=env)
        return bool(json.loads(seen.stdout)["locked_by"] == "")

    wait_until(nobody_works_on_it, "the dead controller's lock to be free", 30)
    status = clean.sgdeploy("status", str(profile), "--json", env=env)
    assert status.returncode == 1, status.stderr
    shown = json.loads(status.stdout)
    assert shown["state"] == "starting"
    assert {row["process"] for row in shown["processes"] if row["state"] != "ready"} >= {"dsv3/native/n04/r03"}
    down = clean.sgdeploy("down", str(profile), env=env)
    assert down.returncode == 0, down.stderr
    no_more_engines(clean)
    assert hugepages(clean.hosts[3]) == [BEFORE] * NUMA_NODES


def test_a_rank_killed_in_warm_up_is_named_in_seconds(
    clean: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = kunpeng_profile(clean, tmp_path, SGDEPLOY_REHEARSE_FAIL="hang@warmup:n0r0")
    stderr = tmp_path / "stderr"
    victim = "dsv3/native/n07/r05"
    with (
        stderr.open("w", encoding="utf-8") as errors,
        clean.popen("up", str(profile), "--json", stderr=errors) as process,
    ):
        wait_for_all_but_the_leader(process)
        killed = time.monotonic()
        os.kill(rank_pid(clean.host("n07"), 5), signal.SIGKILL)
        failed = next(event for event in events_of(process) if event["event"] == "failed")
        reported = time.monotonic() - killed
        rest = list(events_of(process))
        assert process.wait(60) == PROCESS_FAILED
    error = stderr.read_text(encoding="utf-8")
    with capsys.disabled():
        sys.stdout.write(f"\na rank killed in warm-up was reported {reported:.2f} s after its death (aim: under 3 s)\n")
    assert (failed["process"], failed["host"]) == (victim, "n07"), error
    assert failed["reason"] == "killed by SIGKILL (9)"
    assert failed["lines"]
    assert not [event for event in rest if event["event"] == "outcome" and event["outcome"] == "ready"]
    assert "error: dsv3: native/n07/r05 (and " in error
    no_more_engines(clean)
    assert hugepages(clean.hosts[6]) == [BEFORE] * NUMA_NODES


@pytest.mark.fault(
    "host refused",
    told="1 of 16 hosts could not be reached n05: … refuses connections: no sshd listens there … nothing was changed",
    code=5,
)
def test_a_host_that_refuses_stops_everything_before_anything(clean: Lab, tmp_path: Path, heard: Heard) -> None:
    profile = kunpeng_profile(clean, tmp_path)
    before = {host.name: held(host) for host in clean.hosts}
    host = clean.host("n05")
    host.refuse()
    try:
        up = clean.sgdeploy("up", str(profile))
    finally:
        host.serve()
    no_more_engines(clean)
    assert {host.name: held(host) for host in clean.hosts} == before
    heard(up.stderr, up.returncode)


@pytest.mark.fault(
    "accepts then hangs",
    told="1 of 16 hosts could not be reached n09: … took the connection but has not said a word of SSH within 10 s",
    code=5,
)
def test_a_host_that_accepts_and_hangs_is_named_within_its_bound(clean: Lab, tmp_path: Path, heard: Heard) -> None:
    profile = kunpeng_profile(clean, tmp_path)
    host = clean.host("n09")
    host.hang()
    begin = time.monotonic()
    try:
        up = clean.sgdeploy("up", str(profile), limit=60)
    finally:
        host.serve()
    no_more_engines(clean)
    heard(up.stderr, up.returncode, time.monotonic() - begin)


def test_a_host_that_loses_power_is_named_and_the_others_are_stopped(clean: Lab, tmp_path: Path) -> None:
    profile = kunpeng_profile(clean, tmp_path, SGDEPLOY_REHEARSE_FAIL="hang@warmup:n0r0")
    stderr = tmp_path / "stderr"
    host = clean.host("n12")
    with (
        stderr.open("w", encoding="utf-8") as errors,
        clean.popen("up", str(profile), "--json", stderr=errors) as process,
    ):
        wait_for_all_but_the_leader(process)
        host.power_off()
        told = list(events_of(process))
        assert process.wait(90) in {HOST_FAILED, PROCESS_FAILED}
    error = stderr.read_text(encoding="utf-8")
    assert [event for event in told if event["event"] == "host" and (event["host"], event["state"]) == ("n12", "lost")]
    assert "n12" in error
    no_more_engines(clean)
    down = clean.sgdeploy("down", str(profile), limit=60)
    assert down.returncode == HOST_FAILED
    assert "n12" in down.stderr
    host.power_on()
    assert clean.sgdeploy("down", str(profile)).returncode == 0
