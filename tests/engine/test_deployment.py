"""The real engine, brought up by sgdeploy over SSH on two hosts from the shipped profile, and what ends it there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.deployments import Events, assert_nothing_left
from tests.engine.deployed import FORKED, UP_LIMIT, Deployed, failed_up, profile_words
from tests.engine.stages import Stages
from tests.kit import netns
from tests.kit.hosts import Lab
from tests.kit.labhost import wait_until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

LEADER, FOLLOWER = "tiny/native/n01", "tiny/native/n02"
HOST_FAILED, PROCESS_FAILED = 5, 6
KILLED = ("died-without-a-word", "oom-kill")
"""What `up` says of a process that was killed; the latter where the kernel, which the hosts share, killed somebody."""


@pytest.fixture
def lab(hosts: Lab) -> Iterator[Lab]:
    """Give the hosts, and prove after the test that they hold nothing of ours."""
    yield hosts
    assert_nothing_left(hosts.hosts)
    assert hosts.strays() == []


@pytest.fixture
def words(lab: Lab, tmp_path: Path) -> list[str]:
    """Give the profile and what must be said on this machine."""
    return profile_words(lab, tmp_path, "cpu/tiny-two-nodes", native__hosts="rack1")


def test_it_serves_bears_a_cut_link_and_leaves(lab: Lab, words: list[str], stages: Stages) -> None:
    it = Deployed(lab, "tiny")
    with stages.stage("up", UP_LIMIT) as stage:
        up = lab.sgdeploy("up", *words, "--json", limit=stage.left)
        assert up.returncode == 0, up.stderr
        events = Events.read(up.stdout)
        assert events.one("completion")["tokens"] > 0
        assert events.one("outcome")["outcome"] == "ready"
    with stages.stage("status", 30):
        assert it.states() == ("ready", "ready", "ready")
    with stages.stage("status while the follower's link is cut", 60):
        lab.hosts[1].cut()
        shown = it.status()
        lab.hosts[1].mend()
        assert (shown["state"], shown["processes"][1]["state"]) == ("degraded", "lost")
        assert "n02 (10.77.0.2 port 22) did not answer within" in shown["unreachable"]["n02"]
    with stages.stage("status once it is mended", 60) as stage:
        wait_until(lambda: it.states() == ("ready", "ready", "ready"), "the deployment to be ready again", stage.left)
    with stages.stage("status while the follower's scheduler is stopped by a signal", 60):
        with it.stopped(lab.hosts[1]) as reason:
            shown = it.status()
        follower = shown["processes"][1]
        assert (shown["state"], follower["process"], follower["host"]) == ("degraded", FOLLOWER, "n02")
        assert (follower["state"], follower["reason"]) == ("failed", reason)
    with stages.stage("status once it goes on", 60) as stage:
        it.wait_ready(2, stage)
    records = [it.record(host) for host in lab.hosts]
    with stages.stage("down of what serves", 60) as stage:
        it.down(stage)
    assert "Finished server process" in it.log_of(lab.hosts[0], records[0])
    assert "Scheduler or DataParallelController" in it.log_of(lab.hosts[1], records[1])


def test_a_follower_killed_before_all_is_ready_is_named_in_seconds(lab: Lab, words: list[str], stages: Stages) -> None:
    it = Deployed(lab, "tiny")

    def strike(events: Events) -> bool:
        if not any(row["process"] == FOLLOWER and row["state"] == "ready" for row in events.of("rank")):
            return False
        os.kill(it.main_pid(lab.hosts[1]), signal.SIGKILL)
        return True

    with stages.stage("up, with the follower killed once it is loaded", UP_LIMIT) as stage:
        code, events, said = failed_up(lab, words, stage, strike)
    failed = next(events.of("failed"))
    assert (code, failed["process"], failed["reason"]) == (PROCESS_FAILED, FOLLOWER, "killed by SIGKILL (9)")
    stages.rows.append(f"{failed['seconds_to_report']:6.2f} s from the follower's death to its report")
    assert failed["seconds_to_report"] < 10.0
    assert "error: tiny: native/n02 failed: " in said, said
    assert any(f"[{rule}]" in said for rule in KILLED), said
    assert it.cause() == ("died-without-a-word", FOLLOWER, "n02")


def test_a_leader_killed_in_its_warm_up_is_named_before_its_follower(
    lab: Lab, words: list[str], stages: Stages
) -> None:
    """The follower ends within a second after its leader, and says that it lost a peer."""
    it = Deployed(lab, "tiny")

    def strike(events: Events) -> bool:
        if not any(row["process"] == LEADER and row["state"] == "warming" for row in events.of("rank")):
            return False
        os.kill(it.main_pid(lab.hosts[0]), signal.SIGKILL)
        return True

    with stages.stage("up, with the leader killed in its warm-up", UP_LIMIT) as stage:
        code, events, said = failed_up(lab, words, stage, strike)
    failed = next(events.of("failed"))
    assert (code, failed["process"], failed["host"]) == (PROCESS_FAILED, LEADER, "n01")
    assert failed["reason"] == "killed by SIGKILL (9)"
    stages.rows.append(f"{failed['seconds_to_report']:6.2f} s from the leader's death to its report")
    assert failed["seconds_to_report"] < 10.0
    assert "error: tiny: native/n01 (and 1 more) failed: " in said, said
    assert any(f"[{rule}]" in said for rule in KILLED), said
    assert it.cause() == ("died-without-a-word", LEADER, "n01")


def test_a_leader_told_to_stop_in_mid_load_leaves_no_orphan(lab: Lab, words: list[str], stages: Stages) -> None:
    """The signal comes from outside and early, while children import: then they do not notice the end of main."""
    it = Deployed(lab, "tiny")
    orphans: list[int] = []

    def strike(events: Events) -> bool:
        leader = lab.hosts[0]
        if not any(row["process"] == LEADER and row["phase"] == "reading arguments" for row in events.of("rank")):
            return False
        wait_until(lambda: FORKED in it.log_of(leader), "the children of the leader", stage.left)
        main = it.main_pid(leader)
        os.kill(main, signal.SIGTERM)
        wait_until(lambda: netns.process(main) is None, "the end of the main process", 10)
        orphans.extend(proc.pid for proc in leader.processes() if "multiprocessing.spawn" in " ".join(proc.argv))
        return True

    with stages.stage("up, with SIGTERM to the leader while its children import", UP_LIMIT) as stage:
        code, events, said = failed_up(lab, words, stage, strike)
    failed = next(events.of("failed"))
    assert (code, failed["process"], failed["reason"]) == (PROCESS_FAILED, LEADER, "killed by SIGTERM (15)")
    assert "error: tiny: native/n01" in said, said
    assert "killed by SIGTERM (15)" in said, said
    assert len(orphans) == 2
    assert [pid for pid in orphans if netns.process(pid) is not None] == []


def test_a_leader_whose_link_is_cut_in_mid_load_is_named_and_taken_down(
    lab: Lab, words: list[str], stages: Stages
) -> None:
    """What could not be stopped behind the cut link still waits for its follower: `down` stops it in mid-load."""
    it = Deployed(lab, "tiny")
    leader = lab.hosts[0]

    def strike(events: Events) -> bool:
        if not any(row["process"] == LEADER and row["phase"] == "reading arguments" for row in events.of("rank")):
            return False
        leader.cut()
        return True

    try:
        with stages.stage("up, with the leader's link cut in mid-load", UP_LIMIT) as stage:
            code, events, said = failed_up(lab, words, stage, strike)
    finally:
        leader.mend()
    assert code == HOST_FAILED
    assert [row["host"] for row in events.of("host") if row["state"] == "lost"] == ["n01"]
    assert "n01: " in said
    with stages.stage("the leader's rendezvous", UP_LIMIT) as stage:
        wait_until(lambda: "Init parallel begin" in it.log_of(leader), "the leader's rendezvous", stage.left)
    titles = [proc.argv[0] for proc in leader.processes()]
    assert {"sglang::scheduler_TP0", "sglang::detokenizer"} <= set(titles)
    start = it.record(leader)
    with stages.stage("down in mid-load", 60) as stage:
        it.down(stage)
    assert "Load weight begin" not in it.log_of(leader, start)
