"""The power supply of a lab: makes hosts out of Linux namespaces, and takes them away when its stdin ends.

Run as a program of its own (standard library only). It leaves the network of the machine for one of its own, in which
a bridge joins the hosts; nothing is ever made in the machine's own network, mounts or process list. Each host is
a supervisor process and, below it, the host's process 1 in namespaces for network, processes, mounts, host name
and IPC, on a private writeable layer (a tmpfs) over the machine's own file system. Killing process 1 is a power
cut; since everything hangs on processes, nothing can outlive them.

Protocol: the first line of stdin is a JSON object of settings, each further line the name of a host to switch on
again. It answers with one JSON line each: ``{"pids": {name: pid}}`` or ``{"error": "…"}``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x1000, 0x4000, 0x40000, 2
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
BRIDGE = "lab"
START_LIMIT = 20.0
OWN_MOUNTS = ("/proc", "/sys", "/dev", "/run", "/mnt", "/etc")
"""Mounts below these are made anew in a host, or not carried over."""


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library that answers 0 or sets errno."""
    if getattr(LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str = "") -> None:
    """Mount something, as the system call of that name does."""
    words = [source.encode(), target.encode(), kind.encode() if kind else None]
    call("mount", *words, ctypes.c_ulong(flags), data.encode() if data else None)


def ip(lines: Iterable[str]) -> None:
    """Run many ``ip`` commands in one process."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True, check=False
    )
    if done.returncode:
        message = f"ip: {done.stderr.strip()}"
        raise OSError(message)


def mac(name: str) -> str:
    """Give a host's hardware address: the same after a power cut, so that its neighbours need not learn a new one."""
    return "02:77:" + ":".join(f"{byte:02x}" for byte in zlib.crc32(name.encode()).to_bytes(4, "big"))


class Power:
    """All hosts of the lab."""

    def __init__(self, settings: dict[str, Any]) -> None:
        """Leave the machine's network and build the lab's own."""
        self.settings = settings
        self.supervisors: dict[str, int] = {}
        self.pids: dict[str, int] = {}
        call("unshare", NEWNET)
        ip(
            [
                "link set lo up",
                f"link add {BRIDGE} type bridge forward_delay 0",
                f"addr add {settings['address']} dev {BRIDGE}",
                f"addr add {settings['address6']} dev {BRIDGE} nodad",
                f"link set {BRIDGE} up",
            ]
        )

    def on(self, names: list[str]) -> None:
        """Switch hosts on, all at the same time; returns once sshd listens on each."""
        gates: dict[str, tuple[int, int]] = {}
        for name in names:
            gates[name] = self._begin(name)
        for name in names:
            self.pids[name] = int(_read_line(gates[name][0]))
        nic = self.settings["nic"]
        ip(
            line
            for name in names
            for line in (
                f"link add {name} type veth peer name {nic} address {mac(name)} netns {self.pids[name]}",
                f"link set {name} master {BRIDGE} up",
            )
        )
        for name in names:
            os.write(gates[name][1], b"go\n")
        for name in names:
            answer = _read_line(gates[name][0])
            if answer != "ready":
                message = f"{name}: {answer or 'ended early'}"
                raise OSError(message)
            for descriptor in gates[name]:
                os.close(descriptor)

    def off(self) -> None:
        """Switch all hosts off and wait until nothing of them is left."""
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for supervisor in self.supervisors.values():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(supervisor, 0)

    def _begin(self, name: str) -> tuple[int, int]:
        old = self.supervisors.pop(name, None)
        if old is not None:
            os.waitpid(old, 0)
            # The kernel takes the old network down some time later; its cable must not be in the way until then.
            with contextlib.suppress(OSError):
                ip([f"link del {name}"])
        from_host, to_lab = os.pipe()
        from_lab, to_host = os.pipe()
        supervisor = os.fork()
        if supervisor == 0:
            os.close(from_host)
            os.close(to_host)
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 0)
            os.dup2(nothing, 1)
            supervise(self.settings, name, to_lab, from_lab)
        os.close(to_lab)
        os.close(from_lab)
        self.supervisors[name] = supervisor
        return from_host, to_host


def supervise(settings: dict[str, Any], name: str, to_lab: int, from_lab: int) -> None:
    """Make the namespaces, start process 1 in them, end when it ends."""
    try:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        call("unshare", NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET)
        init = os.fork()
        if init == 0:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            run_host(settings, settings["hosts"][name], to_lab, from_lab)
        os.write(to_lab, b"%d\n" % init)
        os.close(to_lab)
        os.waitpid(init, 0)
    finally:
        os._exit(0)


def run_host(settings: dict[str, Any], host: dict[str, Any], to_lab: int, from_lab: int) -> None:
    """Be process 1: file systems, network, sshd, then reap for ever."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        build_file_system(settings, host)
        _read_line(from_lab)
        nic = settings["nic"]
        ip(
            [
                "link set lo up",
                f"addr add {host['address']} dev {nic}",
                f"addr add {host['address6']} dev {nic} nodad",
                f"link set {nic} up",
            ]
        )
        start_sshd(settings["sshd"])
        os.write(to_lab, b"ready\n")
        os.close(to_lab)
        os.close(from_lab)
    except BaseException as error:  # whatever it is, the lab must hear of it
        os.write(to_lab, f"{error}\n".encode())
        raise
    reap()


def build_file_system(settings: dict[str, Any], host: dict[str, Any]) -> None:
    """Put a private layer over the machine's files, and what is a host's own on top."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    inherited = [point for point in mount_points() if not point.startswith(OWN_MOUNTS)]
    mount("lab", "/mnt", "tmpfs", data=f"size={settings['disk']}")
    root = Path("/mnt/root")
    for folder in ("/mnt/upper", "/mnt/work", root):
        Path(folder).mkdir()
    mount("overlay", str(root), "overlay", data="lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work")
    for point in inherited:
        mount(point, f"{root}{point}", None, MS_BIND | MS_REC)
    mount("/dev", f"{root}/dev", None, MS_BIND | MS_REC)
    mount("proc", f"{root}/proc", "proc")
    mount("sysfs", f"{root}/sys", "sysfs")
    mount("shm", f"{root}/dev/shm", "tmpfs", data=f"size={settings['shm']}")
    os.chdir(root)
    Path(".old").mkdir()
    subprocess.run(["pivot_root", ".", ".old"], check=True)
    os.chdir("/")
    call("umount2", b"/.old", MNT_DETACH)
    Path("/.old").rmdir()
    name = host["name"].encode()
    call("sethostname", name, len(name))
    for path, (mode, text) in host["files"].items():
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    Path("/run/boot_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")
    mount("/run/boot_id", "/proc/sys/kernel/random/boot_id", None, MS_BIND)


def mount_points() -> list[str]:
    """Give the folders other than the root on which something is mounted, outer ones first and none within another."""
    points: list[str] = []
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    for point in sorted({line.split()[4] for line in lines} - {"/"}):
        if Path(point).is_dir() and not any(point.startswith(f"{outer}/") for outer in points):
            points.append(point)
    return points


def start_sshd(command: list[str]) -> None:
    """Start sshd and wait for its pid file, which it writes once it listens."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + START_LIMIT
    while not Path("/run/sshd.pid").exists():
        if time.monotonic() > deadline:
            message = f"sshd does not listen after {START_LIMIT:g} s"
            raise TimeoutError(message)
        time.sleep(0.005)


def reap() -> None:
    """Do what process 1 is for."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        signal.sigtimedwait({signal.SIGCHLD}, 1.0)


def _read_line(descriptor: int) -> str:
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        line += byte
    return line.decode().rstrip("\n")


def main() -> None:
    """Serve until stdin ends."""
    settings = json.loads(sys.stdin.readline())
    power: Power | None = None
    try:
        power = Power(settings)
        power.on(list(settings["hosts"]))
        sys.stdout.write(json.dumps({"pids": power.pids}) + "\n")
        sys.stdout.flush()
        while name := sys.stdin.readline().strip():
            power.on([name])
            sys.stdout.write(json.dumps({"pids": power.pids}) + "\n")
            sys.stdout.flush()
    except OSError as error:
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
    finally:
        if power is not None:
            power.off()
        shutil.rmtree(settings["folder"], ignore_errors=True)  # whoever made it may have been killed


if __name__ == "__main__":
    main()
