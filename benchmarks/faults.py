"""How long it takes from a fault to its report by ``up``, for every fault of the matrix that has a moment.

Two hosts with a simulated rank each; the leader hangs in its warm-up, so that ``up`` waits. A dead process should be
told within 3 s, a dead host within the 10 s that a connection may take and 2 s more.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeAlias

from benchmarks.measure import Aim, Figures, Table, in_turn, keep, words
from tests.cluster.cutting import end_sessions
from tests.cluster.deployments import QUICK, engines, main_of, small_profile
from tests.cluster.running import Running, Stopwatch, running
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until

PROCESS, HOST = 3.0, 12.0
VICTIM, RANK = "n02", "small/native/n02"
GOLDEN = 0.618
"""Spreads the moments of faults evenly over the second in which a watcher looks once."""

Fault: TypeAlias = Callable[[LabHost], object]


@dataclass(frozen=True)
class Ground:
    """Two hosts, and a profile whose bring-up waits for ever."""

    lab: Lab
    profile: Path
    turns: Iterator[int] = field(default_factory=count)

    def waiting(self, make: Fault, report: Callable[[Running], object]) -> Figures:
        """Bring up until the follower is ready, make a fault, and time its report."""
        host = self.lab.host(VICTIM)
        with running(self.lab, "up", str(self.profile)) as up:
            up.ready(RANK)
            folder = f"/var/lib/sgdeploy/small/{VICTIM}/milestones"
            wait_until(lambda: any("sglang::" in f.read_text() for f in host.path(folder).glob("n*")), "its scheduler")
            time.sleep(next(self.turns) * GOLDEN % 1.0)
            watch = Stopwatch()
            make(host)
            report(up)
            seconds = watch.seconds
            up.end()
        self.mend()
        return {"": seconds}

    def refused(self, make: Fault) -> Figures:
        """Make a fault before the bring-up, and time the whole command, which only tells it."""
        make(self.lab.host(VICTIM))
        watch = Stopwatch()
        up = self.lab.sgdeploy("up", str(self.profile))
        seconds = watch.seconds
        if f"{VICTIM}: " not in up.stderr or up.returncode == 0:
            message = f"{VICTIM} was not named: {up.stderr}"
            raise RuntimeError(message)
        self.mend()
        return {"": seconds}

    def mend(self) -> None:
        """Boot the victim anew, and take down what is left."""
        host = self.lab.host(VICTIM)
        if host.processes():
            host.power_off()
        host.power_on()
        self.lab.sgdeploy("down", str(self.profile))


def kill_main(host: LabHost) -> None:
    """Kill the main process of the rank."""
    os.kill(main_of(host), signal.SIGKILL)


def kill_scheduler(host: LabHost) -> None:
    """Kill the scheduler below it, as the kernel does for want of memory."""
    os.kill(next(pid for pid in engines(host) if pid != main_of(host)), signal.SIGKILL)


def without_key(host: LabHost) -> None:
    """Take our key off the host."""
    host.write("/etc/ssh/lab_authorized_keys", "")


FAILED, LOST = Running.failed, partial(Running.lost, host=VICTIM)


@contextmanager
def ground() -> Iterator[Ground]:
    """Make the hosts and the profile; nothing is left afterwards."""
    lab = Lab.create(2, disk="128m")
    try:
        with tempfile.TemporaryDirectory() as folder:
            env = {**QUICK, "SGDEPLOY_REHEARSE_SPEED": "1", "SGDEPLOY_REHEARSE_FAIL": "hang@warmup:n0"}
            yield Ground(lab, small_profile(lab, Path(folder), **env))
    finally:
        lab.destroy()


def main() -> None:
    """Measure and print."""
    given = words(__doc__ or "", runs=10)
    with ground() as made:
        processes = {
            "main process killed": partial(made.waiting, kill_main, FAILED),
            "scheduler killed": partial(made.waiting, kill_scheduler, FAILED),
        }
        hosts = {
            "SSH connection broken": partial(made.waiting, end_sessions, LOST),
            "power lost": partial(made.waiting, LabHost.power_off, LOST),
            "cable pulled": partial(made.waiting, LabHost.cut, LOST),
            "host refuses": partial(made.refused, LabHost.refuse),
            "host accepts and hangs": partial(made.refused, LabHost.hang),
            "key not taken": partial(made.refused, without_key),
            "host key changed": partial(made.refused, LabHost.change_host_key),
            "no python3": partial(made.refused, LabHost.without_python),
        }
        table = Table("from a fault to its report", "", 2, in_turn({**processes, **hosts}, given.runs))
    aims = [Aim(name, PROCESS, worst=True) for name in processes] + [Aim(name, HOST, worst=True) for name in hosts]
    table.show(aims)
    keep([table], given.keep)


if __name__ == "__main__":
    main()
