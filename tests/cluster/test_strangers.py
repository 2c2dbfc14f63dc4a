"""Somebody else's processes, one that is called sglang and one on our port, beside every command that sgdeploy has."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.deployments import QUICK, SPLIT_PROFILE, small_profile
from tests.kit.hosts import Lab
from tests.kit.labhost import wait_until
from tests.weights.tiny import make

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
TITLES = ("sglang", "sglang::scheduler_TP1", "sglang::detokenizer", "sgdeploy-keeper", "sgdeploy-node")
"""What strangers call themselves: everything that we or the engine are called."""

PORT = 30000
WEB = ["python3", "-m", "http.server", str(PORT)]
OTHER_PORT = "--set=native.port=31000"


@dataclass(frozen=True)
class Stranger:
    """One process of somebody else."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Stranger:
        """Take a process that lives."""
        return cls(pid, _started(pid))

    @property
    def alive(self) -> bool:
        """Whether this very process lives, and runs."""
        return _started(self.pid) == self.started


def _started(pid: int) -> str:
    """Give state (running or sleeping: S) and start time of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return f"{'S' if fields[0] in 'RSD' else fields[0]} {fields[19]}"


@pytest.fixture
def strangers(pair: Lab) -> Iterator[list[Stranger]]:
    """Run strangers on both hosts and on the client; after the test they are ended."""
    places = [host.command for host in pair.hosts] + [pair.command]
    named = [["bash", "-c", f"exec -a {title} sleep 4711"] for title in TITLES]
    with contextlib.ExitStack() as stack:
        entered = [stack.enter_context(ended(command, argv)) for command in places for argv in (*named, WEB)]
        wait_until(lambda: len(found(pair)) == len(entered), "all strangers")
        pids = found(pair)
        yield [Stranger.of(pid) for pid in pids]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def ended(command: object, argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in a place, and wait for its end afterwards."""
    assert callable(command)
    with subprocess.Popen(command(argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield process
        process.wait(10)


def found(lab: Lab) -> list[int]:
    """List the strangers: who sleeps so long, or serves this port."""
    inside = [proc for host in lab.hosts for proc in host.processes()] + lab.strays()
    return [proc.pid for proc in inside if proc.argv[-1] in {"4711", str(PORT)} and proc.argv[0] != "nsenter"]


def test_strangers_outlive_every_command(pair: Lab, strangers: list[Stranger], tmp_path: Path) -> None:
    profile = str(small_profile(pair, tmp_path, **QUICK))
    (tmp_path / "split.yaml").write_text(SPLIT_PROFILE)
    model = str(make("dsv3-tiny", tmp_path / "model"))
    splitting = ("split-weights", "--profile", str(tmp_path / "split.yaml"), "--out", "/split", "--model", model)
    failing = "SGDEPLOY_REHEARSE_FAIL=exit3@load:n1"
    commands: list[tuple[int, tuple[str, ...]]] = [
        (3, ("up", profile)),
        (0, ("up", profile, OTHER_PORT)),
        (0, ("status", "small")),
        (0, ("up", profile, OTHER_PORT, "--only", "native")),
        (0, ("down", "small", "--now")),
        (6, ("up", profile, OTHER_PORT, "--set", "engine.env." + failing)),
        (0, ("up", profile, OTHER_PORT, "--no-wait")),
        (0, ("down", "small")),
        (0, ("down", profile)),
        (0, (*splitting, "--on-nodes")),
        (3, ("demo",)),
    ]
    assert all(stranger.alive for stranger in strangers)
    for code, words in commands:
        done = pair.sgdeploy(*words)
        assert done.returncode == code, (words, done.stdout, done.stderr)
        dead = [stranger for stranger in strangers if not stranger.alive]
        assert dead == [], f"`sgdeploy {' '.join(words)}` has cost strangers their lives"
    for host in pair.hosts:
        host.run(["rm", "-rf", "/split"])
