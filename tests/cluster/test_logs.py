"""`logs` over real sshd: clocks that differ, a host that is lost, and one channel for all that a host has to say."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cluster.deployments import small_profile
from tests.kit.hosts import Lab

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]
RUN_DIR = "/var/lib/sgdeploy/small"


def stamp(seconds: float) -> str:
    """Give a time as the engine writes it."""
    return time.strftime("[%Y-%m-%d %H:%M:%S TP0]", time.localtime(seconds))


def test_logs_of_all_hosts_are_merged_and_a_lost_one_is_told(pair: Lab, tmp_path: Path) -> None:
    profile = str(small_profile(pair, tmp_path))
    plan = json.loads(pair.sgdeploy("plan", profile, "--json").stdout)
    begin = 1_800_000_000
    for number, process in enumerate(plan["processes"]):
        lines = [f"{stamp(begin + 2 * step + number)} {process['host']} step {step}\n" for step in range(3000)]
        pair.host(process["host"]).write(f"{RUN_DIR}/{process['host']}/logs/{process['log']}", "".join(lines))

    whole = pair.sgdeploy("logs", profile, "--tail", "all")
    assert whole.returncode == 0, whole.stderr
    order = [tuple(line.split()[-3:]) for line in whole.stdout.splitlines()]
    assert order == [(name, "step", str(step)) for step in range(3000) for name in ("n01", "n02")]
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begin + 5990))
    late = pair.sgdeploy("logs", profile, "--since", since, "--grep", "step .*[13579]$", "--json")
    found = [json.loads(line) for line in late.stdout.splitlines()]
    assert [(row["host"], row["time"]) for row in found] == [
        (name, begin + 2 * step + number) for step in (2995, 2997, 2999) for number, name in enumerate(("n01", "n02"))
    ]

    pair.host("n02").refuse()
    try:
        rest = pair.sgdeploy("logs", profile, "--tail", "1")
    finally:
        pair.host("n02").serve()
    assert (rest.returncode, rest.stdout.split()[-3:]) == (5, ["n01", "step", "2999"])
    assert "n02" in rest.stderr
