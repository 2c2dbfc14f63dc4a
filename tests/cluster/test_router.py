"""Two buckets with the real router over real sshd, in front of simulated prefill and decode engines.

What the router's bucket policy does was seen in trials with router 0.3.2 (docs/topologies.md); these tests hold it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sgdeploy.deploy.buckets import WORKERS
from sgdeploy.deploy.events import Event
from sgdeploy.deploy.fleet import Fleet, open_fleet
from sgdeploy.deploy.router import workers_counted
from sgdeploy.plan.compile import compile_profile
from sgdeploy.plan.model import Plan, Process
from sgdeploy.remote.connect import connector
from tests.cluster.deployments import Events, assert_nothing_left, engines
from tests.cluster.split import (
    DECODE,
    FOLDER,
    LONG,
    METRICS,
    NO_NETWORK,
    PORT,
    ROUTER,
    SHORT,
    Traffic,
    first_bucket,
    log_of,
    split_profile,
)
from tests.kit import netns
from tests.kit.hosts import Lab, lent
from tests.kit.labhost import LabHost
from tests.kit.matrix import Heard

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(150)]

PREFLIGHT_FAILED, PROCESS_FAILED, TIME_RAN_OUT = 3, 6, 7
KILLED = "killed by SIGKILL (9)"
STARTS, AT_ONCE = 20, 10


@pytest.fixture(scope="module")
def rack() -> Iterator[Lab]:
    """Four hosts for the whole module; each test leaves them as it found them."""
    with lent(4, disk="128m") as made:
        yield made


@pytest.fixture
def clean(rack: Lab, tmp_path: Path) -> Iterator[Lab]:
    """Prove after the test that no host holds anything of ours; take down what a failed test leaves."""
    try:
        yield rack
    finally:
        profile = tmp_path / "split.yaml"
        if any(engines(host) for host in rack.hosts) and profile.exists():
            rack.sgdeploy("down", str(profile), "--now")
    assert_nothing_left(rack.hosts)
    assert rack.strays() == []


def came_up(lab: Lab, profile: Path, *words: str) -> Events:
    """Bring a deployment (or a part) up and give what was told."""
    up = lab.sgdeploy("up", str(profile), "--json", *words)
    assert up.returncode == 0, up.stderr
    return Events.read(up.stdout)


def went_down(lab: Lab, *words: str) -> None:
    down = lab.sgdeploy("down", "split", *words)
    assert down.returncode == 0, down.stderr


def notes(events: Events) -> str:
    return "\n".join(f"{row['message']} {row['hint'] or ''}" for row in events.of("note"))


def ended_at(host: LabHost) -> float:
    """Give the moment at which the only process of a host had ended, from the keeper's own record."""
    (file,) = host.path(f"{FOLDER}/{host.name}/exits").glob("*.json")
    moment: float = json.loads(file.read_text(encoding="utf-8"))["wall"]
    return moment


def test_lengths_go_apart_after_a_burst_and_the_router_goes_first(clean: Lab, tmp_path: Path) -> None:
    events = came_up(clean, split_profile(clean, tmp_path))
    short, long = events.of("completion")
    assert (short["prefill"], long["prefill"]) == ("prefill/short", "prefill/short"), "no interval is over yet"
    assert len(long["prompt"]) > 4096 > len(short["prompt"])
    assert short["tokens"] > 0 < long["tokens"]
    assert 0 < short["first_token"] <= short["seconds"]
    assert "every prompt goes to prefill/short until one interval of 3 s with traffic is over" in notes(events)
    assert first_bucket(log_of(clean.host(ROUTER))) == f"http://{clean.host(SHORT).address}:30000"

    traffic = Traffic(clean)
    traffic.burst(3000)
    served = [traffic.send(size) for size in (25, 3000, 3001, 6000)]
    assert served == [SHORT, SHORT, LONG, LONG]

    went_down(clean, "--keep-records")
    router, decode, *prefills = (ended_at(clean.host(name)) for name in (ROUTER, DECODE, SHORT, LONG))
    assert router < decode < min(prefills)
    went_down(clean)


def test_with_the_default_threshold_load_wins_over_length(clean: Lab, tmp_path: Path) -> None:
    """The vendor's 64: the second long prompt of an interval goes to the instance that had none."""
    events = came_up(clean, split_profile(clean, tmp_path, threshold=64))
    assert "places prompts by load, whatever their length" in notes(events)
    traffic = Traffic(clean)
    assert {traffic.send(6000) for _ in range(6)} == {SHORT, LONG}
    went_down(clean)


def test_separate_tokenizers_come_between_the_instances_and_the_router(clean: Lab, tmp_path: Path) -> None:
    events = came_up(clean, split_profile(clean, tmp_path, tokenizers=True))
    titles = [row["title"] for row in events.of("step") if row["title"].startswith("start ")]
    beside = ["tokenizer/prefill-short", "tokenizer/prefill-long", "tokenizer/decode"]
    assert titles == [
        "start 3 processes of prefill/short, prefill/long, decode",
        f"start 3 processes of {', '.join(beside)}",
        "start 1 process of router",
    ]
    assert [row["prefill"] for row in events.of("completion")] == [beside[0]] * 2, "the router talks to them"
    status = json.loads(clean.sgdeploy("status", "split", "--json").stdout)
    units = ("prefill/short", "prefill/long", "decode", *beside, "router")
    assert {row["unit"]: row["state"] for row in status["processes"]} == dict.fromkeys(units, "ready")
    went_down(clean)


@dataclass(frozen=True)
class Starts:
    """Routers started beside the deployment's own, on other ports, and their buckets put in order as `up` does it."""

    lab: Lab
    plan: Plan
    fleet: Fleet

    async def one(self, number: int) -> tuple[str, str]:
        """Start a router and end it; give the URLs of its first bucket, as drawn and as arranged."""
        (planned,) = (process for process in self.plan.processes if process.role == "router")
        port, metrics = PORT + 100 + number, METRICS + 100 + number
        words = [str(port) if word == str(PORT) else word for word in planned.argv]
        router = planned.model_copy(update={"argv": tuple(words), "listens": {"http": port, "metrics": metrics}})
        log = self.lab.folder / f"router-{number}.log"
        settings = [f"{name}={value}" for name, value in NO_NETWORK.items()]
        command = ["env", *settings, *words, "--prometheus-port", str(metrics)]
        with log.open("wb") as out:
            running = await asyncio.create_subprocess_exec(
                *self.lab.host(ROUTER).command(command), stdout=out, stderr=out
            )
        try:
            drawn = await self._first(router)
            told: list[Event] = []
            await workers_counted(self.fleet, router, self.plan.front_door, None, told.append)
            assert bool(told) is (drawn != self.plan.front_door.workers[0].url)
            return drawn, first_bucket(log.read_text(encoding="utf-8"))
        finally:
            for proc in self.lab.host(ROUTER).processes():
                if running.pid in {each.pid for each in netns.lineage(proc.pid)}:
                    os.kill(proc.pid, signal.SIGKILL)
            await asyncio.wait_for(running.wait(), 20)

    async def _first(self, router: Process) -> str:
        """Wait until it knows all workers, and give the first prefill of its list."""
        question = {"address": router.address, "port": router.listens["http"], "path": WORKERS}
        for _ in range(200):
            answer = await self.fleet.sessions[ROUTER].call("http", question)
            rows = json.loads(answer["body"])["workers"] if answer["status"] == 200 else []
            if len(rows) == 3:
                return str(next(row["url"] for row in rows if row["worker_type"] == "prefill"))
            await asyncio.sleep(0.1)
        raise AssertionError(f"{router.listens} does not know three workers after 20 s")


async def test_the_buckets_are_in_order_in_twenty_of_twenty_starts(
    clean: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = split_profile(clean, tmp_path)
    came_up(clean, profile)
    plan = compile_profile(profile).plan
    monkeypatch.setenv("HOME", str(clean.home))
    with clean.inside():
        made = connector()
        try:
            fleet = await open_fleet(made, [host for host in plan.hosts if host.host == ROUTER])
            starts = Starts(clean, plan, fleet)
            found: list[tuple[str, str]] = []
            for begin in range(0, STARTS, AT_ONCE):
                found += await asyncio.gather(*map(starts.one, range(begin, begin + AT_ONCE)))
        finally:
            await made.close_all()
    short, long, _ = (worker.url for worker in plan.front_door.workers)
    assert {drawn for drawn, _ in found} == {short, long}, "the router no longer draws lots"
    assert [arranged for _, arranged in found] == [short] * STARTS
    went_down(clean)


def test_a_prefill_that_dies_in_its_start_is_named_and_all_is_stopped(clean: Lab, tmp_path: Path) -> None:
    profile = split_profile(clean, tmp_path, long={"SGDEPLOY_REHEARSE_FAIL": "die@load"})
    up = clean.sgdeploy("up", str(profile), "--json")
    assert up.returncode == PROCESS_FAILED
    failed = Events.read(up.stdout).one("failed")
    assert (failed["process"], failed["host"], failed["reason"]) == (f"split/prefill/long/{LONG}", LONG, KILLED)
    assert f"prefill/long/{LONG} failed on {LONG}: {KILLED}" in up.stderr
    assert [row["title"] for row in Events.read(up.stdout).of("step") if "router" in row["title"]] == []
    assert all(engines(host) == [] for host in clean.hosts)


def test_a_decode_that_never_gets_warm_is_named_when_nothing_goes_on(clean: Lab, tmp_path: Path) -> None:
    profile = split_profile(clean, tmp_path, stall="4s", decode={"SGDEPLOY_REHEARSE_FAIL": "hang@warmup"})
    up = clean.sgdeploy("up", str(profile), "--json")
    assert up.returncode == TIME_RAN_OUT, up.stderr
    assert f"decode/{DECODE}" in up.stderr
    assert f"prefill/short/{SHORT}" not in up.stderr
    assert all(engines(host) == [] for host in clean.hosts)


@pytest.mark.fault("router exits", told="split is degraded: … n04 router failed killed by SIGKILL (9)", code=1)
def test_a_router_that_is_killed_is_told_and_brought_back_alone(clean: Lab, tmp_path: Path, heard: Heard) -> None:
    profile = split_profile(clean, tmp_path)
    came_up(clean, profile)
    (file,) = clean.host(ROUTER).path(f"{FOLDER}/{ROUTER}/processes").glob("*.json")
    inner = json.loads(file.read_text(encoding="utf-8"))["pid"]
    os.kill(next(proc.pid for proc in clean.host(ROUTER).processes() if proc.inner_pid == inner), signal.SIGKILL)
    status = clean.sgdeploy("status", "split")
    again = came_up(clean, profile, "--only", "router")
    assert again.one("outcome")["outcome"] == "ready"
    went_down(clean)
    heard(status.stdout, status.returncode)


@pytest.mark.fault(
    "router never counts a worker",
    told="router failed on n04: it does not count every worker as healthy after … http://10.77.0.3:30000",
    code=6,
)
def test_a_worker_that_the_router_cannot_reach(clean: Lab, tmp_path: Path, heard: Heard) -> None:
    """We reach it, and its host says that it is well; only between router and worker there is no way."""
    profile = split_profile(clean, tmp_path, stall="14s")
    address = clean.host(DECODE).address
    way = ["ip", "route", "add", "blackhole", f"{address}/32"]
    clean.host(ROUTER).run(way)
    up = clean.sgdeploy("up", str(profile), "--json")
    clean.host(ROUTER).run([word.replace("add", "del") for word in way])
    assert "only the router is stopped; the instances stay up" in notes(Events.read(up.stdout))
    assert came_up(clean, profile, "--only", "router").one("outcome")["outcome"] == "ready"
    went_down(clean)
    heard(up.stderr, up.returncode)


@contextlib.contextmanager
def stranger(host: LabHost, port: int) -> Iterator[None]:
    """Hold a port of a host, as a process that is not ours would."""
    with netns.entered(host.pid):
        held = socket.create_server((host.address, port))
    with held:
        yield


def came_up_against(lab: Lab, profile: Path, port: int, *words: str) -> tuple[int, Events, str]:
    """Bring up while a stranger takes a port of the router's host right after the preflight has found it free."""
    with contextlib.ExitStack() as strangers, lab.popen("up", str(profile), "--json", *words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if json.loads(line).get("title") == "write run folders and scripts":
                strangers.enter_context(stranger(lab.host(ROUTER), port))
        error = process.stderr.read()
        return process.wait(60), Events.read("".join(lines)), error


def test_a_router_whose_port_is_taken_leaves_the_instances_up(clean: Lab, tmp_path: Path) -> None:
    """First its own port, then that of its metrics; with the port free again `up --only router` goes on."""
    profile = split_profile(clean, tmp_path)
    for port, words in ((PORT, ()), (METRICS, ("--only", "router"))):
        code, events, error = came_up_against(clean, profile, port, *words)
        assert code == PROCESS_FAILED, error
        failed = events.one("failed")
        assert (failed["process"], failed["host"]) == ("split/router", ROUTER)
        assert any("already in use" in line.lower() for line in failed["lines"]), failed["lines"]
        assert "exit code 1" in failed["reason"]
        if not words:
            assert "only the router is stopped; the instances stay up" in notes(events)
            assert "`sgdeploy up … --only router` goes on" in notes(events)
        status = json.loads(clean.sgdeploy("status", "split", "--json").stdout)
        states = {row["unit"]: row["state"] for row in status["processes"]}
        assert states == {"prefill/short": "ready", "prefill/long": "ready", "decode": "ready", "router": "failed"}

    with stranger(clean.host(ROUTER), PORT):
        refused = clean.sgdeploy("up", str(profile), "--only", "router")
    assert refused.returncode == PREFLIGHT_FAILED
    assert f"{ROUTER}: {clean.host(ROUTER).address}:{PORT} is taken by " in refused.stderr
    assert came_up(clean, profile, "--only", "router").one("outcome")["outcome"] == "ready"
    went_down(clean)


def test_a_worker_that_comes_too_late_for_the_router_is_added(clean: Lab, tmp_path: Path) -> None:
    """The router's host has no way to the worker until `up` has begun to add it; the router's own limit is over then.

    Within its limit of 2 s the router tries three times in the first 4 s, and `up` leaves it 10 s.
    """
    profile = split_profile(clean, tmp_path, flags={"worker-startup-timeout-secs": 2})
    came_up(clean, profile)
    went_down(clean, "--only", "router")
    late, router = clean.host(LONG).address, clean.host(ROUTER)
    router.run(["ip", "route", "add", "unreachable", late])
    told: list[str] = []
    try:
        with clean.popen("up", str(profile), "--only", "router", "--json") as process:
            assert process.stdout is not None
            for line in process.stdout:
                told.append(line)
                if json.loads(line).get("message") == f"the router does not know http://{late}:30000: it is added":
                    router.run(["ip", "route", "del", "unreachable", late])
            assert process.stderr is not None
            assert process.wait(60) == 0, process.stderr.read()
    finally:
        router.run(["ip", "route", "flush", "type", "unreachable"])
    events = Events.read("".join(told))
    assert notes(events).count("it is added") == 1
    assert len(list(events.of("completion"))) == 2
    went_down(clean)
