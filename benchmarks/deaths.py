"""How long it takes from the death of a rank to the report of ``up``, with host, cause and last lines.

The rival watches the same process in the same moment: ``ssh HOST tail --pid=PID``, which only tells that it is gone,
and has to know beforehand which of all processes will die.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.measure import LIMIT, Aim, Figures, Table, in_turn, keep, words
from tests.cluster.deployments import kunpeng_profile
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until

OURS, RIVAL = "sgdeploy up: death to report", "ssh tail --pid: death to end"
RANKS = 16
GOLDEN = 0.618
"""Spreads the moments of death evenly over the second in which a watcher looks once."""


def events_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what a running command tells, as it tells it."""
    if process.stdout is not None:
        for line in process.stdout:
            yield json.loads(line)


def record(host: LabHost, rank: int) -> int:
    """Give the pid of a rank's main process, as its host counts."""
    file = host.path(f"/var/lib/sgdeploy/dsv3/{host.name}/processes/native-{host.name}-r{rank:02d}.json")
    pid: int = json.loads(file.read_text(encoding="utf-8"))["pid"]
    return pid


def death(lab: Lab, profile: Path, turns: Iterator[int]) -> Figures:
    """Bring everything up but the leader's warm-up, kill a rank, and time the report; another rank at each turn."""
    turn = next(turns)
    host, rank = lab.hosts[-1 - turn % max(1, len(lab.hosts) - 1)], 1 + turn % (RANKS - 1)
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        lab.popen("up", str(profile), "--json", stderr=errors) as up,
    ):
        _wait_for_all_but_the_leader(up, RANKS * len(lab.hosts))
        inner = record(host, rank)
        outer = next(proc.pid for proc in host.processes() if proc.inner_pid == inner)
        with _tail(lab, host, inner) as tail:
            ended: list[float] = []
            waiting = threading.Thread(target=lambda: ended.append((tail.wait(LIMIT), time.perf_counter())[1]))
            waiting.start()
            time.sleep(turn * GOLDEN % 1.0)
            killed = time.perf_counter()
            os.kill(outer, signal.SIGKILL)
            failed = next(event for event in events_of(up) if event["event"] == "failed")
            reported = time.perf_counter()
            waiting.join(LIMIT)
        for _ in events_of(up):
            pass
        up.wait(LIMIT)
    if failed["process"] != f"dsv3/native/{host.name}/r{rank:02d}":
        message = f"killed {host.name} r{rank:02d}, but {failed['process']} was named"
        raise RuntimeError(message)
    return {OURS: reported - killed, RIVAL: ended[0] - killed}


def _wait_for_all_but_the_leader(up: subprocess.Popen[str], ranks: int) -> None:
    ready: set[str] = set()
    for event in events_of(up):
        if event["event"] == "rank" and event["state"] == "ready":
            ready.add(event["process"])
        if len(ready) == ranks - 1:
            return
    message = f"`up` ended with {len(ready)} of {ranks} ranks ready"
    raise RuntimeError(message)


def _tail(lab: Lab, host: LabHost, pid: int) -> subprocess.Popen[str]:
    """Start the rival, and give it once it has begun to look."""
    folder = lab.home / ".ssh"
    options = ["-F", folder / "config", "-i", folder / "id_ed25519", "-o", f"UserKnownHostsFile={folder}/known_hosts"]
    argv = ["ssh", *map(str, options), host.name, f"exec tail --pid={pid} -f /dev/null"]
    process = subprocess.Popen(lab.command(argv), stdin=subprocess.DEVNULL, env=lab.environment, text=True)
    wait_until(lambda: any(proc.argv[0] == "tail" for proc in host.processes()), f"tail on {host.name}")
    return process


def measured(hosts: int, runs: int) -> Table:
    """Measure one number of hosts."""
    lab = Lab.create(hosts, disk="128m")
    try:
        with tempfile.TemporaryDirectory() as folder:
            profile = kunpeng_profile(lab, Path(folder), SGDEPLOY_REHEARSE_FAIL="hang@warmup:n0r0")
            series = in_turn({"": partial(death, lab, profile, count())}, runs)
    finally:
        lab.destroy()
    return Table(f"{hosts} hosts with {RANKS} ranks each", RIVAL, hosts, series)


def main() -> None:
    """Measure and print."""
    given = words(__doc__ or "", runs=20, sizes=(1, 4, 16))
    tables = [measured(hosts, given.runs) for hosts in given.sizes]
    for table in tables:
        table.show([Aim(OURS, 1.0), Aim(OURS, 3.0, worst=True)])
    keep(tables, given.keep)


if __name__ == "__main__":
    main()
