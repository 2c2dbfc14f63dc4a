"""How long ``up`` takes beyond what the engine itself takes: simulated ranks on namespace hosts, 16 on each.

The rival starts the same scripts on the same hosts by hand, without SSH, facts, records or watching, and asks for a
healthy answer and a completion once the leader says that it is ready; what `up` takes longer is its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.measure import LIMIT, Figures, Table, in_turn, keep, words
from tests.cluster.deployments import Events, engines, kunpeng_profile
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until

OURS, HAND = "sgdeploy up", "the same scripts by hand"
STARTED, DOWN = "until all are started", "down"
HTTP_OK = 200
FOLDER, LEADER_LOG, READY = "/root/by-hand", "native-n000-r00.log", "The server is fired up and ready to roll!"


def brought_up(lab: Lab, profile: Path) -> Figures:
    """Time ``up`` to its end, its first part, and ``down``."""
    clock, begin = time.time(), time.perf_counter()
    up = lab.sgdeploy("up", str(profile), "--json", limit=LIMIT)
    ready = time.perf_counter()
    if up.returncode != 0:
        raise RuntimeError(up.stderr[-2000:])
    events = Events.read(up.stdout)
    started = max(row["time"] for row in events.of("host") if row["state"] == "started")
    down = lab.sgdeploy("down", str(profile), limit=LIMIT)
    if down.returncode != 0:
        raise RuntimeError(down.stderr[-2000:])
    return {"": ready - begin, STARTED: started - clock, DOWN: time.perf_counter() - ready}


def by_hand(lab: Lab, model: str) -> Figures:
    """Time from ``bash start.sh`` on all hosts at once to a completion of the ready engine; stop everything again."""
    for host in lab.hosts:
        shutil.rmtree(host.path(f"{FOLDER}/logs"), ignore_errors=True)
    begin = time.perf_counter()
    _on_all(lab, "start.sh")
    leader = lab.hosts[0].path(f"{FOLDER}/logs/{LEADER_LOG}")
    wait_until(lambda: READY in leader.read_text(encoding="utf-8"), "the leader to be ready", LIMIT)
    _prove(lab, model)
    ready = time.perf_counter()
    _on_all(lab, "stop.sh")
    for host in lab.hosts:
        wait_until(partial(_is_empty, host), f"the end of all engines on {host.name}", 60)
    return {"": ready - begin}


def _on_all(lab: Lab, script: str) -> None:
    running = [
        subprocess.Popen(
            host.command(["bash", f"{FOLDER}/{script}"]), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for host in lab.hosts
    ]
    for process in running:
        _, errors = process.communicate(timeout=LIMIT)
        if process.returncode != 0:
            message = f"{script} ended with {process.returncode}: {errors[-2000:]}"
            raise RuntimeError(message)


def _prove(lab: Lab, model: str) -> None:
    """Ask for health, then for a completion, as `up` does."""
    body = json.dumps({"model": model, "prompt": "Say hello.", "max_tokens": 8})
    with lab.inside():
        connection = HTTPConnection(lab.hosts[0].address, 30000, timeout=30)
        connection.connect()
    connection.request("GET", "/health")
    health = connection.getresponse()
    health.read()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer = json.load(connection.getresponse())
    connection.close()
    if health.status != HTTP_OK or not answer["usage"]["completion_tokens"]:
        message = f"health {health.status}, completion {answer}"
        raise RuntimeError(message)


def _is_empty(host: LabHost) -> bool:
    return not engines(host)


def _put_scripts(lab: Lab, profile: Path, folder: Path) -> str:
    """Write the scripts of each host to where they are started by hand; gives the model's name."""
    written = lab.sgdeploy("plan", str(profile), "--out", str(folder), limit=LIMIT)
    shown = lab.sgdeploy("plan", str(profile), "--json", limit=LIMIT)
    if written.returncode or shown.returncode:
        raise RuntimeError(written.stderr + shown.stderr)
    for host in lab.hosts:
        shutil.copytree(folder / host.name, host.path(FOLDER))
    model: str = json.loads(shown.stdout)["front_door"]["model"]
    return model


def measured(hosts: int, runs: int) -> Table:
    """Measure one number of hosts."""
    lab = Lab.create(hosts, disk="128m")
    try:
        with tempfile.TemporaryDirectory() as folder:
            profile = kunpeng_profile(lab, Path(folder))
            model = _put_scripts(lab, profile, Path(folder, "scripts"))
            series = in_turn({HAND: partial(by_hand, lab, model), OURS: partial(brought_up, lab, profile)}, runs)
    finally:
        lab.destroy()
    return Table(f"{hosts} hosts with 16 ranks each", HAND, hosts, series)


def main() -> None:
    """Measure and print."""
    given = words(__doc__ or "", runs=5, sizes=(1, 4, 16))
    tables = [measured(hosts, given.runs) for hosts in given.sizes]
    for table in tables:
        table.show()
        beyond = table.series[OURS].median - table.series[HAND].median
        print(f"  beyond the engine's own: {beyond:.2f} s")
    keep(tables, given.keep)


if __name__ == "__main__":
    main()
