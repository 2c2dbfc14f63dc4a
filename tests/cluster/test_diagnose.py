"""`diagnose` of deployments over real sshd: the cause that `up` told, also after `down`, and what hosts confirm."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.deployments import QUICK, small_profile
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]
FAILED = 6
RENDEZVOUS = 25000
NO_MODEL = "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/none'. Use `repo_type`"
LISTEN = (
    "import socket, sys\n"
    "taken = socket.create_server(('0.0.0.0', {port}))\n"
    "print('listens', flush=True)\n"
    "sys.stdin.read()\n"
)


def findings(lab: Lab, target: str) -> list[dict[str, Any]]:
    """Ask what is wrong, which must be something."""
    said = lab.sgdeploy("diagnose", target, "--json")
    assert said.returncode == FAILED, said.stderr
    found: list[dict[str, Any]] = json.loads(said.stdout)["findings"]
    return found


@contextmanager
def taken(host: LabHost, port: int) -> Iterator[None]:
    """Let a stranger listen on a port of a host."""
    command = host.command(["python3", "-c", LISTEN.format(port=port)])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "listens\n"
        yield
        stranger.communicate("", 10)


def test_a_failed_up_and_diagnose_name_the_same_cause_also_after_down(pair: Lab, tmp_path: Path) -> None:
    fault = "unknown-flag=--attention-backnd:n1"
    profile = small_profile(pair, tmp_path, **QUICK, SGDEPLOY_REHEARSE_FAIL=fault)
    up = pair.sgdeploy("up", str(profile))
    assert up.returncode == FAILED
    cause = "this version does not know the flag --attention-backnd"
    for told in (
        "native/n02 failed on n02: ",
        f"cause: {cause}  [unknown-flag]\n",
        "next: correct or remove --attention-backnd",
    ):
        assert told in up.stderr, up.stderr

    def same(target: str) -> None:
        (found,) = findings(pair, target)
        assert (found["rule"], found["process"], found["host"]) == ("unknown-flag", "small/native/n02", "n02")
        assert found["cause"] == cause

    same("small")
    assert pair.sgdeploy("down", str(profile)).returncode == 0
    same(str(profile))


def test_what_a_log_suggests_is_looked_at_on_its_host(pair: Lab, tmp_path: Path) -> None:
    profile = small_profile(pair, tmp_path, **QUICK, SGDEPLOY_REHEARSE_FAIL="rendezvous-taken:n0")
    assert pair.sgdeploy("up", str(profile)).returncode == FAILED
    leader, follower = pair.hosts
    with taken(leader, RENDEZVOUS):
        (found,) = findings(pair, str(profile))
        assert (found["rule"], found["process"], found["host"]) == ("port-taken", "small/native/n01", "n01")
        assert f"port {RENDEZVOUS}" in found["cause"]
        assert "; held now by pid " in found["cause"]
        assert "python3" in found["cause"]
    (file,) = follower.path("/var/lib/sgdeploy/small/n02/logs").glob("*.log")
    # The simulated engine looks at no model; what is written behind the end of a run counts for nothing.
    line = f"\n{NO_MODEL}\n".encode()
    file.write_bytes(file.read_bytes()[: -len(line)] + line)
    free, gone = sorted(findings(pair, str(profile)), key=lambda found: str(found["process"]))
    assert free["cause"].endswith("; it is free again now")
    assert (gone["rule"], gone["process"]) == ("model-path-missing", "small/native/n02")
    assert gone["cause"].endswith("; looked: there is no /models/none on n02")
