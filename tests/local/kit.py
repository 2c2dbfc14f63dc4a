"""What the tests on loopback hosts share: a profile, commands as processes, and what lives on the "hosts"."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sgdeploy
from tests.cluster.deployments import QUICK, Events

NAME = "again"
LIMIT = 90.0
PROFILE = """\
version: 1
name: again
topology: native
platform: cpu
inventory: {{version: 1, defaults: {{connection: local}}, groups: {{a: "{net}. | 1-2", b: "{net}. | 3"}}}}
model: {{path: /models/none, served_name: again}}
engine:
  executable: rehearsal
  flags: {{max-total-tokens: 8192}}
  env: {env}
native:
  a: {{hosts: a, parallel: {{tp: 2}}}}
  b: {{hosts: b, parallel: {{tp: 1}}}}
health: {{timeout: 60s, stall: 40s, grace: 5s}}
"""


@dataclass
class Ground:
    """One test's network, files and commands.

    Attributes:
        folder: profiles and the state of controller and hosts.
        net: the first three numbers of every host.
        started: commands that may still run.
    """

    folder: Path
    net: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def profile(self, extra: str = "", **env: str) -> Path:
        """Write the profile of instance a on two hosts, and b on one."""
        path = self.folder / "again.yaml"
        path.write_text(PROFILE.format(net=self.net, env=json.dumps({**QUICK, **env})) + extra)
        return path

    def popen(self, *words: str, before: Sequence[str] = (sys.executable,), **how: Any) -> subprocess.Popen[str]:
        """Start a command; its streams are pipes unless said otherwise.

        Args:
            words: of the command, behind ``sgdeploy``.
            before: the program that runs it, and its words.
            how: more for ``subprocess.Popen``.
        """
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        argv = [*before, "-m", "sgdeploy", *words]
        environ = {
            **os.environ,
            "XDG_STATE_HOME": str(self.folder / "state"),
            "PYTHONPATH": str(Path(sgdeploy.__file__).parents[1]),
        }
        started = subprocess.Popen(argv, env=environ, text=True, **{**pipes, **how})
        self.started.append(started)
        return started

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        process = self.popen(*words)
        out, err = process.communicate(timeout=LIMIT)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def well(self, *words: str) -> Events:
        """Run a command that must end with 0, and give what it told."""
        ended = self.run(*words, "--json")
        assert ended.returncode == 0, ended.stderr
        return Events.read(ended.stdout)

    def pids(self) -> dict[str, int]:
        """Give the pids of recorded processes by their names below the deployment."""
        files = self.run_folder(0).parent.glob("*/processes/*.json")
        records = [json.loads(file.read_text()) for file in files]
        return {record["id"].partition("/")[2]: record["pid"] for record in records}

    def digest(self) -> str:
        """Give the digest of the plan on record, without its algorithm."""
        plan = json.loads((self.run_folder(1) / "plan.json").read_text())
        return str(plan["digest"]).removeprefix("sha256:")

    def run_folder(self, number: int) -> Path:
        """Give the run folder of a host."""
        return Path.home() / ".local/state/sgdeploy" / NAME / self.host(number)

    def keepers(self, number: int) -> list[Path]:
        """Give the keepers of a host that live."""
        found = [(file, json.loads(file.read_text())) for file in (self.run_folder(number) / "keepers").glob("*.json")]
        return [file for file, keeper in found if Path(f"/proc/{keeper['pid']}").exists()]

    def forget(self) -> None:
        """Take away what the controller knows of its deployments, as if it were another machine."""
        shutil.rmtree(self.folder / "state" / "sgdeploy" / ".controller")

    def host(self, number: int) -> str:
        """Give the name of a host."""
        return f"{self.net}.{number}"

    def clear(self) -> None:
        """End commands that still run, and take down what they left."""
        for process in self.started:
            process.kill()
            process.communicate(timeout=LIMIT)
        if any((self.folder / "again.yaml").parent.glob("again.yaml")):
            ended = self.run("down", str(self.folder / "again.yaml"), "--now")
            assert ended.returncode == 0, ended.stderr


def events_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what a command tells with ``--json``, as it tells it."""
    assert process.stdout is not None
    return (json.loads(line) for line in process.stdout)


def until(process: subprocess.Popen[str], what: str, found: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Read events until one is found."""
    for event in events_of(process):
        if found(event):
            return event
    process.wait(LIMIT)
    errors = process.stderr.read() if process.stderr is not None else ""
    raise AssertionError(f"it ended with {process.returncode} and told nothing of {what}: {errors}")


def wait_until(what: str, met: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something, and say in the failure what was waited for."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.05)


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """Give both ends of a terminal: the one that we hold, and the one of a command."""
    ours, theirs = os.openpty()
    try:
        yield ours, theirs
    finally:
        for end in (ours, theirs):
            with suppress(OSError):
                os.close(end)
