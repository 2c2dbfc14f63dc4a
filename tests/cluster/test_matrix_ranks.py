"""The fault matrix, ranks: they die, hang, lose children, fill their logs, or are not themselves any more."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.deployments import QUICK, RUN_FOLDERS, engines, main_of, small_profile
from tests.cluster.running import Stopwatch, running
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until
from tests.kit.matrix import Heard

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(150)]
GIB = 1 << 30
MOST_MEMORY = 100 << 10
"""KiB that a node helper may need, whatever a log holds."""


def profile_of(pair: Lab, folder: Path, fail: str = "", stall: str = "40s", **changes: str) -> Path:
    """Write a profile of one rank on each host, which loses no time and fails as asked."""
    env = {**QUICK, **({"SGDEPLOY_REHEARSE_FAIL": fail} if fail else {}), **changes}
    path = small_profile(pair, folder, **env)
    path.write_text(path.read_text(encoding="utf-8").replace("stall: 40s", f"stall: {stall}"), encoding="utf-8")
    return path


def came_up(pair: Lab, profile: Path) -> None:
    up = pair.sgdeploy("up", str(profile))
    assert up.returncode == 0, up.stderr


def went_down(pair: Lab, *words: str) -> str:
    down = pair.sgdeploy("down", "small", *words)
    assert down.returncode == 0, down.stderr
    assert all(engines(host) == [] for host in pair.hosts)
    return down.stderr


def status_of(pair: Lab) -> tuple[str, int]:
    """Ask how it is; give what people read, and the exit code."""
    asked = pair.sgdeploy("status", "small")
    return asked.stdout + asked.stderr, asked.returncode


def kill(pid: int, host: LabHost) -> None:
    """Kill a process and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in {proc.pid for proc in host.processes()}, f"the end of {pid}")


def failed_up(pair: Lab, profile: Path) -> tuple[dict[str, Any], str, int]:
    """Bring up what must fail; give the first failure, what was said, and the code."""
    with running(pair, "up", str(profile)) as up:
        failed = up.failed()
        code, said = up.end()
    return failed, said, code


@pytest.mark.fault("rank exits at load", told="native/n02 failed on n02: exit code 3 … log: …/native-n001.log", code=6)
def test_a_rank_that_exits_while_it_loads(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    failed, said, code = failed_up(pair, profile_of(pair, tmp_path, "exit3@load:n1"))
    assert "rehearsed failure" in "\n".join(failed["lines"])
    heard(said, code, failed["seconds_to_report"])


@pytest.mark.fault(
    "killed by the OOM killer (137)",
    told="native/n02 failed on n02: …its sglang::scheduler_TP1 (pid … ended",
    code=6,
)
def test_a_follower_whose_scheduler_the_kernel_kills(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    """Its main process stays, and its leader, which lost a peer, falls before it: the follower is named even so."""
    profile = profile_of(pair, tmp_path, "hang@warmup:n0", SGDEPLOY_REHEARSE_SPEED="0.4")
    host = pair.host("n02")
    with running(pair, "up", str(profile)) as up:
        up.ready("small/native/n02")
        main = main_of(host)
        wait_until(lambda: "sglang::scheduler" in milestones(host), "the scheduler to be seen")
        watch = Stopwatch()
        os.kill(next(pid for pid in engines(host) if pid != main), signal.SIGKILL)
        failed = up.failed()
        seconds = watch.seconds
        code, said = up.end()
    assert failed["process"] == "small/native/n02", said
    heard(said, code, seconds)


def milestones(host: LabHost) -> str:
    """Give what the watch of the only process of a host keeps."""
    return next(host.path(f"{RUN_FOLDERS}/small/{host.name}/milestones").glob("n*.json")).read_text(encoding="utf-8")


@pytest.mark.fault(
    "killed by the OOM killer (137)", told="native/n02 failed on n02: … scheduler died … exit code: -9", code=6
)
def test_a_scheduler_that_the_kernel_kills_in_the_load(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    failed, said, code = failed_up(pair, profile_of(pair, tmp_path, "oom@load:n1"))
    assert failed["process"] == "small/native/n02"
    heard(said, code, failed["seconds_to_report"])


@pytest.mark.fault("killed by the OOM killer (137)", told="native/n02 failed on n02: killed by SIGKILL (9)", code=6)
def test_a_main_process_that_the_kernel_kills(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    with running(pair, "up", str(profile_of(pair, tmp_path, "hang@warmup:n0"))) as up:
        up.ready("small/native/n02")
        watch = Stopwatch()
        os.kill(main_of(pair.host("n02")), signal.SIGKILL)
        failed = up.failed()
        seconds = watch.seconds
        code, said = up.end()
    assert failed["process"] == "small/native/n02", said
    heard(said, code, seconds)


@pytest.mark.fault(
    "rank hangs in warm-up", told="no process made any progress for …: 1 of 2 … n01 native/n01 …", code=7
)
def test_a_rank_that_hangs_in_warm_up(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    with running(pair, "up", str(profile_of(pair, tmp_path, "hang@warmup:n0", stall="3s"))) as up:
        up.ready("small/native/n02")
        watch = Stopwatch()
        code, said = up.end()
    heard(said, code, watch.seconds)


GREEN = "import urllib.request as u; print(u.urlopen('http://{address}:30000/ping', timeout=9).status)"


@pytest.mark.fault(
    "leader green while a follower is dead",
    told="small is degraded: … n02 native failed killed by SIGKILL (9)",
    code=1,
)
def test_a_follower_that_dies_behind_a_green_leader(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    """The leader's scheduler stands still, so that it takes no notice."""
    came_up(pair, profile_of(pair, tmp_path))
    leader, follower = pair.hosts
    os.kill(next(pid for pid in engines(leader) if pid != main_of(leader)), signal.SIGSTOP)
    kill(main_of(follower), follower)
    green = leader.run(["python3", "-c", GREEN.format(address=leader.address)]).stdout
    assert green == "200\n"
    said, code = status_of(pair)
    went_down(pair, "--now")
    heard(said, code)


@pytest.mark.fault("scheduler child orphaned", told="small is down; every process is proven gone", code=0)
def test_a_scheduler_that_outlives_its_rank(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    """It stands still when its main process is killed, so it never notices."""
    came_up(pair, profile_of(pair, tmp_path))
    host = pair.host("n02")
    main = main_of(host)
    scheduler = next(pid for pid in engines(host) if pid != main)
    os.kill(scheduler, signal.SIGSTOP)
    kill(main, host)
    assert engines(host) == [scheduler]
    down = pair.sgdeploy("down", "small", "--now")
    assert engines(host) == []
    heard(down.stderr, down.returncode)


@pytest.mark.fault(
    "completion returns no token",
    told="native/n01 failed on n01: …/v1/completions answered 200, but with no token",
    code=6,
)
def test_a_completion_without_a_token(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    up = pair.sgdeploy("up", str(profile_of(pair, tmp_path, "no-tokens:n0")))
    heard(up.stderr, up.returncode)


REUSE = """
import os, sys, time
wanted = int(sys.argv[1])
for _ in range(2000):
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(wanted - 1))
    pid = os.fork()
    if pid == 0:
        if os.getpid() != wanted:
            os._exit(0)
        os.setsid()
        os.execvp("sleep", ["sleep", "4242"])
    if pid == wanted:
        print("taken", flush=True)
        os.waitpid(pid, 0)
        break
    os.waitpid(pid, 0)
"""


@pytest.mark.fault(
    "pid reused by a stranger", told="small is degraded: … n02 native failed killed by SIGKILL (9)", code=1
)
def test_a_pid_that_a_stranger_has_now(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    came_up(pair, profile_of(pair, tmp_path))
    host = pair.host("n02")
    record = json.loads(host.path(f"{RUN_FOLDERS}/small/n02/processes/native-n02.json").read_text())
    kill(main_of(host), host)
    wait_until(lambda: engines(host) == [], "the end of what the rank had started")
    with subprocess.Popen(
        host.command(["python3", "-c", REUSE, str(record["pid"])]), stdout=subprocess.PIPE, text=True
    ) as taking:
        assert taking.stdout is not None
        assert taking.stdout.readline() == "taken\n"
        stranger = next(proc for proc in host.processes() if proc.inner_pid == record["pid"])
        assert stranger.argv == ("sleep", "4242")
        said, code = status_of(pair)
        went_down(pair, "--now")
        alive = [proc.pid for proc in host.processes() if proc.inner_pid == record["pid"]]
        os.kill(stranger.pid, signal.SIGKILL)
        taking.wait(10)
    assert alive == [stranger.pid], "`down` has left the stranger alone"
    heard(said, code)


@pytest.mark.fault(
    "host rebooted",
    told="small is degraded: … n02 native failed gone: its host was booted anew after it was started",
    code=1,
)
def test_a_host_that_was_booted_anew(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    """Its disk has kept everything; nothing on it is taken for alive, whatever has its pids now."""
    came_up(pair, profile_of(pair, tmp_path))
    host = pair.host("n02")
    kept = tmp_path / "disk"
    shutil.copytree(host.path(RUN_FOLDERS), kept)
    host.power_off()
    host.power_on()
    shutil.copytree(kept, host.path(RUN_FOLDERS), dirs_exist_ok=True)
    said, code = status_of(pair)
    went_down(pair)
    heard(said, code)


@pytest.mark.fault("log of 1 GiB without newline", told="small is ready", code=0)
def test_a_log_of_a_gibibyte_in_one_line(pair: Lab, tmp_path: Path, heard: Heard) -> None:
    came_up(pair, profile_of(pair, tmp_path))
    host = pair.host("n02")
    log = host.path(f"{RUN_FOLDERS}/small/n02/logs/native-n001.log")
    os.truncate(log, log.stat().st_size + GIB)
    watch = Stopwatch()
    most: list[int] = []
    with pair.popen("status", "small") as asking:
        while asking.poll() is None:
            most += filter(None, map(partial(peak, host), helpers(host)))
        said = asking.communicate()
    assert max(most) < MOST_MEMORY, f"a node helper took {max(most)} KiB"
    seconds = watch.seconds
    went_down(pair)
    log.unlink()
    heard("".join(said), asking.returncode, seconds)


def helpers(host: LabHost) -> list[int]:
    """List the node helpers of a host, keepers apart."""
    return [
        proc.pid
        for proc in host.processes()
        if "sgdeploy-keeper" not in proc.argv and any("sgdeploy-node" in word for word in proc.argv)
    ]


def peak(host: LabHost, pid: int) -> int:
    """Give the most memory that a process ever held, in KiB; 0 if it has ended."""
    del host
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM:")), 0)
