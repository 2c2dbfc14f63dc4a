"""start.sh and stop.sh, really run: what they write, start, record, take down and leave alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sgdeploy.plan.model import Hugepages, KernelModule, Plan, PlanHost, Process
from sgdeploy.render.quote import RenderError
from sgdeploy.render.scripts import host_script, tree
from tests.unit.render.render_bench import LIMIT
from tests.unit.render.render_plans import pages, plan_of, process, secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Says that it runs, then waits; what it does on SIGTERM is the test's to choose.
_ENGINE = ("bash", "-c", 'trap "$1" TERM; echo up $$ "$2"; while :; do read -rt 60 <> <(:) || :; done', "engine")
LEAVES = "exit 0"
STAYS = "echo asked to end"


@dataclass(frozen=True)
class Hand:
    """One host's folder as an operator has it, with a sysfs of its own."""

    folder: Path
    sysfs: Path

    def script(self, name: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run one of its scripts."""
        return subprocess.run(
            ["bash", str(self.folder / name)],
            env={"PATH": os.environ["PATH"], "SGDEPLOY_SYSFS_ROOT": str(self.sysfs), **environ},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    def sysfs_file(self, path: str, value: str) -> Path:
        """Make one file of the sysfs."""
        file = self.sysfs / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        return file

    def pids(self) -> dict[str, int]:
        """Give what start.sh recorded: key → pid."""
        records = sorted((self.folder / "hand").glob("*.pid"))
        return {record.name.removesuffix(".pid"): int(record.read_text().split()[0]) for record in records}

    def log(self, name: str, text: str) -> str:
        """Wait until a log holds a text."""
        file = self.folder / "logs" / name
        wait_for(lambda: file.exists() and text in file.read_text(), f"{text!r} in {file}")
        return file.read_text()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait for an event, at most ``LIMIT`` seconds."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"waited {LIMIT} s for {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Say whether a process runs; one that ended and waits to be collected does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


def laid_out(plan: Plan, tmp_path: Path) -> Hand:
    for name, text in tree(plan).items():
        file = tmp_path / "with space" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Hand(tmp_path / "with space" / plan.hosts[0].host, tmp_path / "sysfs")


@pytest.fixture
def lay_out(tmp_path: Path) -> Iterator[Callable[..., Hand]]:
    """Give a function that writes a host's folder; what is started in it does not outlive the test."""
    hands: list[Hand] = []

    def make(*processes: Process, **host: Any) -> Hand:
        hosts = (PlanHost(**{"host": "n01", "address": "10.0.0.1", "ssh": "n01", "run_dir": "/r/n01", **host}),)
        hands.append(laid_out(plan_of(*processes, hosts=hosts), tmp_path))
        return hands[-1]

    yield make
    for hand in hands:
        hand.script("stop.sh", SGDEPLOY_GRACE="0")
        for pid in hand.pids().values():
            if alive(pid):
                os.killpg(pid, signal.SIGKILL)


def engine(number: int, on_term: str = LEAVES, **changes: Any) -> Process:
    fields: dict[str, Any] = {
        "id": f"dsv3/native/n01/r{number:02}",
        "argv": (*_ENGINE, on_term, "it's"),
        "log": f"native-n000-r{number:02}.log",
        "leader": number == 0,
    }
    return process(**{**fields, **changes})


def test_it_starts_what_the_plan_says_and_takes_it_back(lay_out: Callable[..., Hand]) -> None:
    hand = lay_out(
        engine(0, hugepages=(pages(0, 0), pages(16, 2020))),
        engine(1, hugepages=(pages(1, 0), pages(17, 2020))),
        hugepages=(pages(0, 8),),
    )
    before = {0: "5", 16: "7", 1: "0", 17: "0"}
    files = {node: hand.sysfs_file(pages(node, 0).path, value) for node, value in before.items()}

    started = hand.script("start.sh")
    assert (started.returncode, started.stderr) == (0, "")
    assert {node: file.read_text().strip() for node, file in files.items()} == {0: "0", 16: "2020", 1: "0", 17: "2020"}
    said = [line.split(",")[0] for line in started.stdout.splitlines()]
    assert said == [
        "deployment dsv3",
        f"run folder: {hand.folder}",
        f"hugepages: {files[0]}: 5 -> 8",
        f"hugepages: {files[0]}: 8 -> 0",
        f"hugepages: {files[16]}: 7 -> 2020",
        "started native-n01-r00",
        f"hugepages: {files[1]}: 0 -> 0",
        f"hugepages: {files[17]}: 0 -> 2020",
        "started native-n01-r01",
        "all started; none of them is ready yet: follow logs/ and ask the leader's /health",
        r"take down: bash {}/stop.sh".format(str(hand.folder).replace(" ", r"\ ")),
    ]
    pids = hand.pids()
    assert list(pids) == ["native-n01-r00", "native-n01-r01"]
    for number, pid in enumerate(pids.values()):
        assert hand.log(f"native-n000-r{number:02}.log", "up") == f"up {pid} it's\n"
        assert (os.getsid(pid), os.getpgid(pid)) == (pid, pid)
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        ignored = next(line.split()[1] for line in status if line.startswith("SigIgn:"))
        assert int(ignored, 16) & 1 << signal.SIGINT - 1 == 0

    stopped = hand.script("stop.sh")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout.splitlines()[0].startswith(f"SIGTERM to the leader (pid {pids['native-n01-r00']})")
    assert not [pid for pid in pids.values() if alive(pid)]
    assert {node: file.read_text().strip() for node, file in files.items()} == before
    assert not (hand.folder / "hand").exists()
    again = hand.script("stop.sh")
    assert (again.returncode, again.stdout) == (0, f"nothing was started by hand in {hand.folder}\n")


def test_a_second_start_is_refused_and_harms_nothing(lay_out: Callable[..., Hand]) -> None:
    hand = lay_out(engine(0))
    assert hand.script("start.sh").returncode == 0
    again = hand.script("start.sh")
    assert again.returncode == 1
    assert (
        again.stderr == f"error: {hand.folder}/hand exists: it was started by hand already; run 'bash stop.sh' first\n"
    )
    assert all(alive(pid) for pid in hand.pids().values())


def test_it_keeps_out_of_a_folder_that_sgdeploy_uses(lay_out: Callable[..., Hand]) -> None:
    hand = lay_out(engine(0))
    (hand.folder / "launch.json").write_text("{}")
    assert "sgdeploy itself runs this deployment in this folder" in hand.script("start.sh").stderr
    assert not (hand.folder / "hand").exists()


def test_who_does_not_listen_is_killed_with_all_descendants(lay_out: Callable[..., Hand], tmp_path: Path) -> None:
    child = tmp_path / "child"
    wiped = tmp_path / "wiped"
    escape = (
        'setsid bash -c \'trap "" TERM; echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 600\' "$2" & '
        'env -i sleep 600 & echo $! >"$3.new"; mv "$3.new" "$3"; wait; sleep 600'
    )
    hand = lay_out(
        engine(0, argv=("bash", "-c", f"trap '' TERM; {escape}", "engine", "x", str(child), str(wiped))),
    )
    assert hand.script("start.sh").returncode == 0
    wait_for(lambda: child.exists() and wiped.exists(), "both descendants")
    pids = [*hand.pids().values(), int(child.read_text()), int(wiped.read_text())]
    assert all(alive(pid) for pid in pids)
    stopped = hand.script("stop.sh", SGDEPLOY_GRACE="1")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert "SIGKILL to" in stopped.stdout
    assert not [pid for pid in pids if alive(pid)]


def test_a_stranger_with_a_recorded_number_survives(lay_out: Callable[..., Hand]) -> None:
    hand = lay_out(engine(0), engine(1))
    assert hand.script("start.sh").returncode == 0
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        try:
            record = hand.folder / "hand" / "native-n01-r00.pid"
            mine = hand.pids()
            start = record.read_text().split()[1]
            record.write_text(f"{stranger.pid} {start}\n")
            stopped = hand.script("stop.sh")
            assert (stopped.returncode, stopped.stderr) == (0, "")
            assert stranger.poll() is None
            assert not [pid for pid in mine.values() if alive(pid)]
        finally:
            stranger.kill()


def test_the_records_of_an_earlier_boot_are_not_believed(lay_out: Callable[..., Hand]) -> None:
    hand = lay_out(engine(0))
    assert hand.script("start.sh").returncode == 0
    boot = hand.folder / "hand" / "boot_id"
    pid = hand.pids()["native-n01-r00"]
    try:
        boot.write_text("another\n")
        stopped = hand.script("stop.sh")
        assert "this machine was started anew" in stopped.stdout
        assert alive(pid)
    finally:
        os.killpg(pid, signal.SIGKILL)


def test_a_page_file_that_is_missing_takes_everything_back(lay_out: Callable[..., Hand]) -> None:
    hand = lay_out(engine(0, hugepages=(pages(0, 3),)), engine(1, hugepages=(pages(1, 3),)))
    file = hand.sysfs_file(pages(0, 0).path, "1")
    started = hand.script("start.sh")
    assert started.returncode == 1
    assert f"error: cannot read {hand.sysfs}{pages(1, 0).path}" in started.stderr
    assert "the start failed; taking back what was done" in started.stdout
    assert "stopped; logs stay in" in started.stdout
    assert file.read_text() == "1\n"
    assert not (hand.folder / "hand").exists()


def test_fewer_pages_than_asked_are_an_error_with_numbers(lay_out: Callable[..., Hand]) -> None:
    hand = lay_out(engine(0, hugepages=(pages(0, 2020),)))
    file = hand.sysfs_file(pages(0, 0).path, "")
    file.unlink()
    os.mkfifo(file)
    written: list[str] = []

    def kernel() -> None:
        """Answer reads and writes in turn like a kernel that has only 1800 pages."""
        for answer in ("5\n", "", "1800\n", "", "5\n"):
            if answer:
                file.write_text(answer)
            else:
                written.append(file.read_text())

    thread = threading.Thread(target=kernel, daemon=True)
    thread.start()
    started = hand.script("start.sh")
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert started.returncode == 1
    assert f"error: {file}: asked for 2020 pages, the kernel granted 1800; free memory" in started.stderr
    assert written == ["2020\n", "5\n"]
    assert f"hugepages: {file}: back to 5" in started.stdout


def test_stop_keeps_its_records_where_pages_do_not_come_back(lay_out: Callable[..., Hand]) -> None:
    hand = lay_out(engine(0, hugepages=(pages(0, 3),)))
    file = hand.sysfs_file(pages(0, 0).path, "1")
    assert hand.script("start.sh").returncode == 0
    file.unlink()
    file.mkdir()
    stopped = hand.script("stop.sh")
    assert stopped.returncode == 1
    assert f"error: {file} should be 1 again and is unreadable" in stopped.stderr
    assert (hand.folder / "hand").is_dir()
    file.rmdir()
    file.write_text("3\n")
    assert hand.script("stop.sh").returncode == 0
    assert file.read_text() == "1\n"


MODULE = KernelModule(name="sdma-dae", file="/opt/my sdma/x.ko", params={"safe_mode": "0", "name": "a b"})


def insmod(tmp_path: Path, code: int) -> str:
    """Put a stand-in for insmod in front of PATH that says what it got."""
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "insmod"
    tool.write_text(f'#!/bin/bash\nprintf "<%s>" "$@"\nexit {code}\n')
    tool.chmod(0o755)
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"


def test_a_module_is_loaded_where_it_is_missing(lay_out: Callable[..., Hand], tmp_path: Path) -> None:
    hand = lay_out(engine(0), modules=(MODULE,))
    started = hand.script("start.sh", PATH=insmod(tmp_path, 0))
    assert started.returncode == 0, started.stderr
    assert "</opt/my sdma/x.ko><safe_mode=0><name=a b>" in started.stdout


def test_a_module_that_does_not_load_ends_it(lay_out: Callable[..., Hand], tmp_path: Path) -> None:
    hand = lay_out(engine(0), modules=(MODULE,))
    started = hand.script("start.sh", PATH=insmod(tmp_path, 1))
    assert started.returncode == 1
    assert "error: insmod /opt/my sdma/x.ko failed (are you root" in started.stderr
    assert not (hand.folder / "hand").exists()


@pytest.mark.parametrize(("shown", "fits"), [("0", True), ("N", True), ("Y", False), ("1", False)])
def test_a_loaded_module_is_compared(lay_out: Callable[..., Hand], tmp_path: Path, shown: str, *, fits: bool) -> None:
    hand = lay_out(engine(0), modules=(MODULE,))
    hand.sysfs_file("/sys/module/sdma_dae/parameters/safe_mode", shown)
    started = hand.script("start.sh", PATH=insmod(tmp_path, 1))
    if fits:
        assert (started.returncode, "module sdma-dae is loaded already" in started.stdout) == (0, True)
    else:
        assert f"module sdma-dae is loaded with safe_mode={shown}, the plan wants safe_mode=0" in started.stderr


def test_secrets_are_asked_for_before_anything_happens(lay_out: Callable[..., Hand]) -> None:
    hand = lay_out(engine(0, env={"TOKEN": secret("HF")}, argv=("bash", "-c", 'echo "$TOKEN $HF"; exec sleep 600')))
    refused = hand.script("start.sh")
    assert (refused.returncode, (hand.folder / "hand").exists()) == (1, False)
    assert refused.stderr == "error: the variable HF is not set, and a process needs the secret in it\n"
    assert hand.script("start.sh", HF="to ken").returncode == 0
    assert hand.log("native-n000-r00.log", "\n") == "to ken to ken\n"


def test_a_tool_that_is_missing_is_named(lay_out: Callable[..., Hand], tmp_path: Path) -> None:
    hand = lay_out(engine(0, memory_nodes=(0,)))
    (tmp_path / "bin").mkdir()
    for name in ("bash", "setsid", "grep"):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    refused = hand.script("start.sh", PATH=str(tmp_path / "bin"))
    assert (refused.returncode, refused.stderr) == (1, "error: numactl is not installed here\n")


HOSTILE = "a'b\"$(touch RAN)`touch RAN`;\n-x é"


def test_hostile_names_stay_names(lay_out: Callable[..., Hand], tmp_path: Path) -> None:
    page = f"/sys/{HOSTILE.replace('/', '')}"
    hand = lay_out(
        engine(0, id=f"dsv3/{HOSTILE}", host=HOSTILE, log=HOSTILE, hugepages=(Hugepages(path=page, value=3),)),
        host=HOSTILE,
        address=HOSTILE,
    )
    file = hand.sysfs_file(page, "1")
    started = hand.script("start.sh")
    assert (started.returncode, started.stderr) == (0, "")
    assert list(hand.pids()) == [HOSTILE]
    hand.log(HOSTILE, "up")
    stopped = hand.script("stop.sh")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert file.read_text() == "1\n"
    assert not list(tmp_path.rglob("RAN"))


def test_two_processes_never_share_a_script() -> None:
    plan = plan_of(engine(0, id="dsv3/prefill/a-b"), engine(1, id="dsv3/prefill-a/b"))
    with pytest.raises(
        RenderError, match=r"would share the script prefill-a-b\.sh: dsv3/prefill-a/b, dsv3/prefill/a-b"
    ):
        host_script(plan, plan.hosts[0])


def test_a_log_stays_in_its_folder() -> None:
    plan = plan_of(engine(0, log="../x"))
    with pytest.raises(RenderError, match=r"log of process dsv3/native/n01/r00: '\.\./x' cannot be the name of a file"):
        host_script(plan, plan.hosts[0])
