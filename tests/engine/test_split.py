"""Prefill and decode apart: two prefills, a decode over two hosts, KV cache sent over TCP, and the router in front.

All of it real, brought up by sgdeploy over SSH on five hosts from the shipped profile.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sgdeploy.deploy.completion import LONG_PROMPT, PROMPT
from tests.cluster.deployments import Events, assert_nothing_left, engines
from tests.engine.deployed import UP_LIMIT, Deployed, failed_up, profile_words
from tests.engine.polling import ask
from tests.engine.stages import Stage, Stages
from tests.kit import netns
from tests.kit.hosts import Lab, lent
from tests.kit.labhost import LabHost, wait_until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

SHORT, LONG, LEADER, FOLLOWER, FRONT = "n01", "n02", "n03", "n04", "n05"
UNITS = {SHORT: "prefill/short", LONG: "prefill/long", LEADER: "decode", FOLLOWER: "decode", FRONT: "router"}
NAME, SINGLE = "tiny-buckets", "single"
PORT, SINGLE_PORT = 30000, 30100
TOKENS = 8
"""To be compared: after a few more, a decode of two ranks and a single one may part, since they round differently."""

PROMPTS = (PROMPT, LONG_PROMPT[:2000])
PROCESS_FAILED = 6
KILLED = "killed by SIGKILL (9)"
TOLD_WITHIN = 10.0
"""Seconds from a death to its report."""


@pytest.fixture(scope="module")
def rack() -> Iterator[Lab]:
    """Give five hosts for the module, and prove afterwards that nothing of them is left."""
    with lent(len(UNITS), disk="256m", shm="2g") as made:
        yield made


@pytest.fixture
def lab(rack: Lab) -> Iterator[Lab]:
    """Give the hosts, and prove after the test that they hold nothing of ours."""
    yield rack
    try:
        assert_nothing_left(rack.hosts)
        assert rack.strays() == []
    finally:
        for name in (NAME, SINGLE) if any(engines(host) for host in rack.hosts) else ():
            rack.sgdeploy("down", name, "--now")  # what a failed test has left


@pytest.fixture
def words(lab: Lab, tmp_path: Path) -> list[str]:
    """Give the profile and what must be said on this machine."""
    placed = {"prefill__short__hosts": SHORT, "prefill__long__hosts": LONG, "router__host": FRONT}
    return profile_words(lab, tmp_path, "cpu/tiny-two-bucket", **placed, decode__hosts=f'["{LEADER}", "{FOLLOWER}"]')


def single(lab: Lab, folder: Path) -> list[str]:
    """Give what brings up a single server, with which the split is compared, beside the router."""
    words = profile_words(lab, folder, "cpu/tiny-two-nodes", native__hosts=FRONT, native__parallel__tp="1")
    return [*words, f"--set=name={SINGLE}", f"--set=native.port={SINGLE_PORT}"]


def text(host: LabHost, port: int, prompt: str) -> str:
    """Let a server complete a prompt, without chance."""
    wish = {"model": "tiny", "prompt": prompt, "max_tokens": TOKENS, "temperature": 0}
    with host.lab.inside():
        answer = ask(host.address, port, "/v1/completions", method="POST", body=json.dumps(wish).encode(), limit=120)
    assert answer.status == "200", answer
    found: str = json.loads(answer.body)["choices"][0]["text"]
    return found


def rows(it: Deployed) -> dict[str, tuple[str, str, str]]:
    """Ask for unit, state and reason of the process on each host."""
    return {row["host"]: (row["unit"], row["state"], row["reason"]) for row in it.status()["processes"]}


def kill(it: Deployed, host: LabHost) -> None:
    """Kill the main process of a host and wait for its end."""
    main = it.main_pid(host)
    os.kill(main, signal.SIGKILL)
    wait_until(lambda: netns.process(main) is None, f"the end of the main process on {host.name}")


def brought_up(lab: Lab, words: list[str], beside: list[str], stage: Stage) -> Events:
    """Bring the split up, and at the same time the single server."""
    with lab.popen("up", *beside, "--json") as other:
        try:
            up = lab.sgdeploy("up", *words, "--json", limit=stage.left)
            _, error = other.communicate(timeout=stage.left)
        finally:
            other.kill()
    assert (up.returncode, other.returncode) == (0, 0), up.stderr + error
    return Events.read(up.stdout)


def test_it_says_what_a_single_server_says_and_names_who_fails(
    lab: Lab, words: list[str], tmp_path: Path, stages: Stages
) -> None:
    it, alone, front = Deployed(lab, NAME), Deployed(lab, SINGLE), lab.host(FRONT)
    with stages.stage("up of a split with its router, and of a single server", UP_LIMIT) as stage:
        events = brought_up(lab, words, single(lab, tmp_path), stage)
    short, long = events.of("completion")
    assert (short["prompt"], long["prompt"]) == (PROMPT, LONG_PROMPT)
    assert short["tokens"] > 0 < long["tokens"]
    assert {short["prefill"], long["prefill"]} <= {"prefill/short", "prefill/long"}
    assert events.one("outcome")["outcome"] == "ready"
    with stages.stage("a short and a long prompt, by the split and by the single server", 120):
        for prompt in PROMPTS:
            assert text(front, PORT, prompt) == text(front, SINGLE_PORT, prompt) != ""
    with stages.stage("down of the single server", 60) as stage:
        alone.down(stage)

    ready = {host: (unit, "ready", "") for host, unit in UNITS.items()}
    with stages.stage("status of the split", 30):
        assert rows(it) == ready
    with stages.stage("status while the link of decode's follower is cut", 60):
        lab.host(FOLLOWER).cut()
        found = rows(it)
        lab.host(FOLLOWER).mend()
        unit, state, reason = found[FOLLOWER]
        assert (unit, state) == ("decode", "lost")
        assert "did not answer within" in reason
        # The leader waits for its follower meanwhile.
        assert [found[host] for host in (SHORT, LONG, FRONT)] == [ready[host] for host in (SHORT, LONG, FRONT)]
    with stages.stage("status once it is mended", 60) as stage:
        it.wait_ready(len(UNITS), stage)
    with stages.stage("status while the scheduler of a prefill is stopped by a signal", 60):
        with it.stopped(lab.host(LONG)) as reason:
            found = rows(it)
        assert found == {**ready, LONG: ("prefill/long", "failed", reason)}
    with stages.stage("status once it goes on", 60) as stage:
        it.wait_ready(len(UNITS), stage)
    with stages.stage("status after a prefill was killed", 60):
        kill(it, lab.host(LONG))
        assert rows(it) == {**ready, LONG: ("prefill/long", "failed", KILLED)}
    with stages.stage("status after decode's leader was killed", 60):
        kill(it, lab.host(LEADER))
        found = rows(it)
        assert found[LEADER] == ("decode", "failed", KILLED)
        assert (found[SHORT], found[FRONT]) == (ready[SHORT], ready[FRONT])
    with stages.stage("down of what is left", 60) as stage:
        it.down(stage)


def test_a_prefill_killed_in_mid_load_is_named_and_all_is_taken_down(
    lab: Lab, words: list[str], stages: Stages
) -> None:
    it, process = Deployed(lab, NAME), f"{NAME}/prefill/long/{LONG}"

    def strike(events: Events) -> bool:
        if not any(row["process"] == process and row["phase"] == "reading arguments" for row in events.of("rank")):
            return False
        kill(it, lab.host(LONG))
        return True

    with stages.stage("up of a split, with a prefill killed in mid-load", UP_LIMIT) as stage:
        code, events, said = failed_up(lab, words, stage, strike)
    failed = next(events.of("failed"))
    assert (code, failed["process"], failed["host"], failed["reason"]) == (PROCESS_FAILED, process, LONG, KILLED)
    stages.rows.append(f"{failed['seconds_to_report']:6.2f} s from the prefill's death to its report")
    assert failed["seconds_to_report"] < TOLD_WITHIN
    assert f"prefill/long/{LONG} failed on {LONG}: {KILLED}" in said
