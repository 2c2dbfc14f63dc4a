"""Hosts that fail in the middle of a bring-up or beside a running deployment; the simulated engine, real sshd."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.deployments import Events, engines, small_profile
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until
from tests.kit.matrix import Heard

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]
RUN_DIR = "/var/lib/sgdeploy/small"
UNREACHABLE, LEFT, UNRECORDED = 5, 5, 8


def rows(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what a running command tells, as it tells it."""
    assert process.stdout is not None
    return (json.loads(line) for line in process.stdout)


def kill_helper(host: LabHost) -> None:
    """Take the node helper away, as the kernel does for lack of memory."""
    for proc in host.processes():
        if any("sgdeploy-node" in word for word in proc.argv) and "sgdeploy-keeper" not in proc.argv:
            os.kill(proc.pid, signal.SIGKILL)


def kill_login(host: LabHost) -> None:
    """End the sshd of our session."""
    for proc in host.processes():
        if proc.argv[0].startswith("sshd: root"):
            os.kill(proc.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("name", "step", "how"),
    [("n02", 4, kill_helper), ("n02", 5, kill_login), ("n01", 5, kill_helper)],
    ids=["helper at the start", "sshd in the load", "helper of the lock"],
)
def test_a_host_that_is_lost_and_back_is_named_and_cleaned(
    pair: Lab, tmp_path: Path, name: str, step: int, how: Callable[[LabHost], None]
) -> None:
    profile, errors = small_profile(pair, tmp_path, SGDEPLOY_REHEARSE_SPEED="0.5"), tmp_path / "errors"
    with errors.open("w") as stderr, pair.popen("up", str(profile), "--json", stderr=stderr) as process:
        told = rows(process)
        next(row for row in told if row["event"] == "step" and row["number"] == step)
        how(pair.host(name))
        rest = list(told)
        assert process.wait(60) == UNREACHABLE
    error = errors.read_text()
    assert f"  {name}: the " in error, error
    assert [row["hosts"] for row in rest if row.get("message") == "opened once more, to clean up"] == [[name]]
    assert not [row for row in rest if row.get("level") == "warning"]
    assert "nothing runs" in pair.sgdeploy("down", str(profile)).stderr


def test_a_full_disk_stops_nobody_from_stopping(pair: Lab, tmp_path: Path) -> None:
    """Logs fill disks; then `down` is what is needed."""
    profile = small_profile(pair, tmp_path)
    assert pair.sgdeploy("up", str(profile)).returncode == 0
    for host in pair.hosts:
        host.run(["sh", "-c", "cat /dev/zero >/var/filler 2>/dev/null || true"])
    down = pair.sgdeploy("down", "small")
    for host in pair.hosts:
        host.path("/var/filler").unlink()
    assert down.returncode == 0, down.stderr
    assert "small is down" in down.stderr


@pytest.mark.fault("disk full", told="failed on 1 host n02: … No space left on device", code=3)
def test_a_disk_that_fills_up_in_a_bring_up_is_named_and_nothing_is_left(
    pair: Lab, tmp_path: Path, heard: Heard
) -> None:
    profile, errors = small_profile(pair, tmp_path), tmp_path / "errors"
    host = pair.host("n02")
    host.write("/var/lib/sgdeploy/.kept", "")
    with errors.open("w") as stderr, pair.popen("up", str(profile), "--json", stderr=stderr) as process:
        told = rows(process)
        next(row for row in told if row["event"] == "step" and row["number"] == 2)
        host.run(["sh", "-c", "cat /dev/zero >/var/filler 2>/dev/null || true"])
        list(told)
        code = process.wait(60)
    host.path("/var/filler").unlink()
    # The disk may be full only when the first rank starts: then the audit trail and its log stay.
    left = {path.name for path in host.path("/var/lib/sgdeploy").rglob("*") if path.is_file()}
    assert left <= {".kept", "audit.log", "native-n001.log"}
    host.path("/var/lib/sgdeploy/.kept").unlink()
    heard(errors.read_text(), code)


def test_run_folders_removed_by_hand_hide_nothing(pair: Lab, tmp_path: Path) -> None:
    profile = small_profile(pair, tmp_path)
    assert pair.sgdeploy("up", str(profile)).returncode == 0
    host = pair.host("n02")
    ranks = engines(host)
    for pid in ranks:  # so that it does not leave with its leader
        os.kill(pid, signal.SIGSTOP)
    host.run(["rm", "-rf", f"{RUN_DIR}/n02"])
    status = pair.sgdeploy("status", "small")
    assert "live without a record there: pid " in status.stdout
    down = pair.sgdeploy("down", "small", "--now")
    assert down.returncode == LEFT
    assert "came from /var/lib/sgdeploy/small/n02, and no record names it" in down.stderr
    assert engines(pair.host("n01")) == []
    assert engines(host) == ranks
    up = pair.sgdeploy("up", str(profile))
    assert up.returncode == UNRECORDED
    hint = next(line for line in up.stderr.splitlines() if "kill -KILL" in line)
    host.run(hint.partition("end them on the host: ")[2].split())
    wait_until(lambda: engines(host) == [], "the end of what was killed by hand")
    assert pair.sgdeploy("down", "small").returncode == 0


def test_a_down_of_what_never_ran_leaves_nothing(pair: Lab, tmp_path: Path) -> None:
    profile = small_profile(pair, tmp_path)
    down = pair.sgdeploy("down", str(profile))
    assert (down.returncode, "nothing runs" in down.stderr) == (0, True)
    assert not any(host.path("/var/lib/sgdeploy").exists() for host in pair.hosts)


@contextlib.contextmanager
def stranger(host: LabHost, argv: list[str]) -> Iterator[Callable[[], list[int]]]:
    """Run somebody else's program on a host; gives a function that lists its processes."""

    def living() -> list[int]:
        return [proc.pid for proc in host.processes() if argv[-1] in proc.argv]

    with subprocess.Popen(host.command(argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as entered:
        try:
            wait_until(lambda: living() != [], f"{argv[-1]} on {host.name}")
            yield living
        finally:
            for pid in living():
                os.kill(pid, signal.SIGKILL)
            entered.wait(10)


def test_strangers_are_told_and_left_alone(pair: Lab, tmp_path: Path) -> None:
    """One has the engine's name, one takes the port of a rank that has died."""
    profile, host = small_profile(pair, tmp_path), pair.host("n02")
    named = ["bash", "-c", "exec -a sglang::scheduler_TP1 sleep $0", "301"]
    with stranger(host, named) as one:
        up = pair.sgdeploy("up", str(profile))
        assert up.returncode == 0, up.stderr
        for each in pair.hosts:
            for pid in set(engines(each)) - set(one()):
                os.kill(pid, signal.SIGKILL)
            wait_until(partial(lambda each: set(engines(each)) <= set(one()), each), f"the end of ranks on {each.name}")
        with stranger(host, ["python3", "-m", "http.server", "30000"]) as other:
            wait_until(lambda: ":7530 " in host.run(["cat", "/proc/net/tcp"]).stdout, "the port of the stranger")
            down = pair.sgdeploy("down", "small")
            assert down.returncode == 0, down.stderr
            assert "n02: port 30000 is held by pid " in down.stderr
            assert "which is none of ours" in down.stderr
            assert one()
            assert other()


VALUE = "hunter2-0123456789"


def test_no_secret_is_seen_anywhere(pair: Lab, tmp_path: Path) -> None:
    profile = small_profile(pair, tmp_path, HF_HOME="${env:MY_KEY}")
    text = profile.read_text().replace("max-total-tokens: 8192", 'max-total-tokens: 8192, api-key: "${env:MY_KEY}"')
    profile.write_text(text)
    env = {"MY_KEY": VALUE}
    plan = pair.sgdeploy("plan", str(profile), "--json", env=env)
    up = pair.sgdeploy("up", str(profile), "--json", env=env)
    assert up.returncode == 0, up.stderr
    status = pair.sgdeploy("status", str(profile), "--json", env=env)
    assert Events.read(up.stdout).one("completion")["tokens"] > 0
    seen = [word for host in pair.hosts for proc in host.processes() for word in proc.argv if VALUE in word]
    holding = {path.parent.name for host in pair.hosts for path in holders(host.path("/var/lib/sgdeploy"))}
    down = pair.sgdeploy("down", str(profile))
    assert down.returncode == 0, down.stderr
    assert seen == []
    assert "secrets" in holding
    # The engine itself writes its API key into its log, as the real one does; nothing else holds it.
    assert holding <= {"secrets", "logs"}
    after = {path.parent.name for host in pair.hosts for path in holders(host.path("/var/lib/sgdeploy"))}
    assert after <= {"logs"}
    assert holders(pair.home) == []
    for ran in (plan, up, status, down):
        assert VALUE not in ran.stdout + ran.stderr


def holders(folder: Path) -> list[Path]:
    """List files below a folder that hold the secret."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if VALUE.encode() in path.read_bytes()]


def test_of_two_controllers_exactly_one_goes_on(pair: Lab, tmp_path: Path) -> None:
    profile = small_profile(pair, tmp_path)
    with pair.popen("up", str(profile)) as one, pair.popen("up", str(profile)) as other:
        said = [process.communicate(timeout=60)[1] for process in (one, other)]
        codes = sorted(process.returncode for process in (one, other))
    assert codes[0] == 0, said
    assert codes[1] in {4, 8}, said
    with pair.popen("down", str(profile)) as one, pair.popen("down", str(profile)) as other:
        said = [process.communicate(timeout=60)[1] for process in (one, other)]
        codes = sorted(process.returncode for process in (one, other))
    assert codes[0] == 0, said
    assert codes[1] in {0, 4}, said
