"""A deployment of the real engine in a lab, one rank on a host: what sgdeploy says of it, and what its hosts show."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.deployments import Events, write_inventory
from tests.engine import home
from tests.engine.stages import Stage
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until

UP_LIMIT = 300.0
"""Seconds for a bring-up; 20 to 45 on two idle cores."""

FORKED = "Using default HuggingFace chat template"
"""From here on a leader has children, which import for some seconds and would not notice its end."""


def profile_words(lab: Lab, folder: Path, profile: str, **hosts: str) -> list[str]:
    """Give a shipped profile and what must be said on this machine: inventory, hosts by role, Python, model."""
    inventory = {"inventory": write_inventory(lab, folder), "engine.python": home.PYTHON, "model.path": home.MODEL}
    # An engine that is killed leaves its sockets where temporary files are, and hosts of a lab share those.
    inventory["engine.env.TMPDIR"] = folder
    placed = {key.replace("__", "."): value for key, value in hosts.items()}
    return [f"shipped:{profile}", *(f"--set={key}={value}" for key, value in {**inventory, **placed}.items())]


@dataclass(frozen=True)
class Deployed:
    """One deployment.

    Attributes:
        lab: its hosts.
        name: its name.
    """

    lab: Lab
    name: str

    def status(self) -> dict[str, Any]:
        """Ask how the deployment is."""
        shown: dict[str, Any] = json.loads(self.lab.sgdeploy("status", self.name, "--json").stdout)
        return shown

    def states(self) -> tuple[str, ...]:
        """Ask for the states of the deployment and of its processes, in plan order."""
        shown = self.status()
        return (shown["state"], *(row["state"] for row in shown["processes"]))

    def wait_ready(self, count: int, stage: Stage) -> None:
        """Wait until the deployment and its processes are ready."""
        wait_until(lambda: self.states() == ("ready",) * (1 + count), f"{self.name} to be ready", stage.left)

    def record(self, host: LabHost) -> dict[str, Any]:
        """Read the record of the process on a host."""
        (file,) = host.path(f"/var/lib/sgdeploy/{self.name}/{host.name}/processes").glob("*.json")
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def log_of(self, host: LabHost, since: Mapping[str, Any] | None = None) -> str:
        """Give what the process of a host wrote since its start; ``since`` is its record, where that is gone by now."""
        start = since or self.record(host)
        return host.path(start["log"]).read_bytes()[start["offset"] :].decode(errors="replace")

    def cause(self) -> tuple[str, str, str]:
        """Ask for the first cause: rule, process and host."""
        said = self.lab.sgdeploy("diagnose", self.name, "--json")
        (first, *_) = json.loads(said.stdout)["findings"]
        return first["rule"], first["process"], first["host"]

    def main_pid(self, host: LabHost) -> int:
        """Give the pid, as this machine counts, of the main process on a host."""
        inner = self.record(host)["pid"]
        return next(proc.pid for proc in host.processes() if proc.inner_pid == inner)

    @contextmanager
    def stopped(self, host: LabHost) -> Iterator[str]:
        """Stop the scheduler of a host by a signal while the body runs; gives what must be said of it."""
        scheduler = next(proc for proc in host.processes() if proc.argv[0].startswith("sglang::scheduler"))
        os.kill(scheduler.pid, signal.SIGSTOP)
        try:
            yield f"stopped by a signal (SIGSTOP) and not let go on: pid {scheduler.inner_pid} sglang::schedul"
        finally:
            os.kill(scheduler.pid, signal.SIGCONT)

    def down(self, stage: Stage) -> None:
        """Take the deployment down."""
        down = self.lab.sgdeploy("down", self.name, limit=stage.left)
        assert down.returncode == 0, down.stderr


def failed_up(lab: Lab, words: list[str], stage: Stage, strike: Callable[[Events], bool]) -> tuple[int, Events, str]:
    """Run ``up`` and strike once, as soon as what it has told so far allows.

    Returns:
        Its exit code, its events, and its stderr.
    """
    told: list[str] = []
    struck = False
    with lab.popen("up", *words, "--json") as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                told.append(line)
                struck = struck or strike(Events.read("".join(told)))
            assert process.stderr is not None
            said = process.stderr.read()
            code = process.wait(stage.left)
        finally:
            process.kill()
    assert struck, said
    return code, Events.read("".join(told)), said
