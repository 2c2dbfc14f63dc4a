"""The test kit itself: hosts are apart from each other and from this machine, and nothing of them stays."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import netns
from tests.kit.hosts import CHECKOUT, Lab
from tests.kit.labhost import wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture
def unguarded() -> Iterator[list[Lab]]:
    """Destroy the labs that a test makes by itself."""
    made: list[Lab] = []
    yield made
    for lab in made:
        lab.destroy()


def test_sixteen_hosts_are_made_in_three_seconds(unguarded: list[Lab]) -> None:
    begin = time.monotonic()
    unguarded.append(Lab.create(16))
    assert time.monotonic() - begin < 3, "0.2 s on an idle machine of two cores"


def test_a_host_has_its_own_name_network_processes_and_boot(lab: Lab) -> None:
    first, second, _ = lab.hosts
    assert [host.run(["hostname"]).stdout.strip() for host in lab.hosts] == ["n01", "n02", "n03"]
    assert f" {first.address}/16 " in first.run(["ip", "-br", "addr", "show", "eth0"]).stdout
    assert {proc.inner_pid for proc in first.processes()} >= {1}
    assert len(first.processes()) == 2
    boot = ["cat", "/proc/sys/kernel/random/boot_id"]
    machine = Path(boot[1]).read_text(encoding="ascii")
    assert len({machine, first.run(boot).stdout, second.run(boot).stdout}) == 3
    assert first.run(["getent", "hosts", "n02"]).stdout.split()[0] == second.address


def test_what_a_host_writes_is_its_own(lab: Lab) -> None:
    first, second, _ = lab.hosts
    first.run(["sh", "-c", "mkdir -p /var/lib/sgdeploy && echo x | tee /var/lib/sgdeploy/f /dev/shm/f /tmp/lab-f"])
    for path in ("/var/lib/sgdeploy/f", "/dev/shm/f", "/tmp/lab-f"):
        assert first.path(path).read_text(encoding="ascii") == "x\n"
        assert not second.path(path).exists()
        assert not Path(path).exists()


def test_the_network_of_this_machine_stays_as_it_is(lab: Lab) -> None:
    def links_and_routes() -> str:
        commands = (["ip", "-br", "link"], ["ip", "route"], ["ip", "-6", "route"])
        return "".join(subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in commands)

    own = netns.identity("thread-self", "net")
    assert "10.77.0." not in links_and_routes()
    assert "fd77:" not in links_and_routes()
    with lab.inside():
        assert "10.77.0.0/16 dev lab" in links_and_routes()
        assert netns.identity("thread-self", "net") != own
        socket.create_connection((lab.hosts[0].address, 22), timeout=5).close()
    assert netns.identity("thread-self", "net") == own


def test_destroy_ends_everything_and_can_be_repeated(unguarded: list[Lab]) -> None:
    lab = Lab.create(2)
    unguarded.append(lab)
    with lab.popen("--help", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        pass
    sleeper = subprocess.Popen(lab.hosts[0].command(["sleep", "999"]))
    stray = subprocess.Popen(lab.command(["sleep", "999"]))
    wait_until(lambda: len(lab.hosts[0].processes()) == 3, "sleep on the host")
    wait_until(lambda: [proc.pid for proc in lab.strays() if "sleep" in proc.argv] == [stray.pid], "the stray")
    assert len(lab.leaks()) > 4, "while it lives, everything counts as left"
    lab.destroy()
    lab.destroy()
    assert (sleeper.wait(5), stray.wait(5)) == (-signal.SIGKILL, -signal.SIGKILL)
    assert lab.leaks() == []
    assert not lab.folder.exists()


def test_nothing_outlives_its_power_supply(unguarded: list[Lab]) -> None:
    lab = Lab.create(2)
    unguarded.append(lab)
    os.kill(lab.power_pid, signal.SIGKILL)
    wait_until(lambda: len(lab.leaks()) == 1, "only the folder to be left")
    lab.destroy()
    assert lab.leaks() == []


MAKER = """
import sys
from tests.kit.hosts import Lab
lab = Lab.create(2)
print(lab.folder, lab.power_pid, flush=True)
sys.stdin.read()
"""


def test_nothing_outlives_the_killing_of_its_maker() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAKER], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as maker:
        assert maker.stdout is not None
        folder, power = maker.stdout.readline().split()
        namespaces = netns.identities(int(power))
        assert netns.inhabitants(namespaces)
        maker.kill()
    wait_until(lambda: not Path(folder).exists(), "the lab's folder to be gone")
    wait_until(lambda: not netns.inhabitants(namespaces), "the lab's processes to be gone")


def test_power_cable_and_sshd_can_fail_and_be_mended(lab: Lab) -> None:
    host = lab.hosts[0]

    def greeting() -> bytes:
        with lab.inside(), socket.create_connection((host.address, 22), timeout=0.5) as connection:
            return connection.recv(4)

    assert greeting() == b"SSH-"
    host.refuse()
    with pytest.raises(ConnectionRefusedError):
        greeting()
    host.serve()
    assert greeting() == b"SSH-"
    host.hang()
    with pytest.raises(TimeoutError):
        greeting()
    host.serve()
    assert greeting() == b"SSH-"
    host.cut()
    with pytest.raises(TimeoutError):
        greeting()
    host.mend()
    assert greeting() == b"SSH-"
    host.power_off()
    assert not Path(f"/proc/{host.pid}/root").exists() or netns.process(host.pid) is None
    host.power_on()
    assert greeting() == b"SSH-"


def test_a_disk_can_be_filled(lab: Lab) -> None:
    host = lab.hosts[0]
    host.fill_disk(leave=8192)
    done = host.run(["dd", "if=/dev/zero", "of=/var/big", "bs=64k", "count=1"], check=False)
    assert "No space left on device" in done.stderr
    assert lab.hosts[1].run(["dd", "if=/dev/zero", "of=/var/big", "bs=64k", "count=1"]).returncode == 0


def test_a_lab_that_cannot_be_made_leaves_nothing() -> None:
    before = set(Path("/tmp").glob("sgdeploy-lab-*"))
    with pytest.raises(RuntimeError, match="the lab cannot be made"):
        Lab.create(1, nic="a-name-that-is-too-long-for-the-kernel")
    assert set(Path("/tmp").glob("sgdeploy-lab-*")) - before == set()
