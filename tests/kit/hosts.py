"""Hosts for tests, made of Linux namespaces: own network, process list, host name, files, /dev/shm and sshd on port 22.

    lab = Lab.create(16)
    lab.sgdeploy("up", "profile.yaml")        # the command line, in the lab's network, with the lab's home
    with lab.inside():                        # or this thread: its sockets reach the hosts
        ...
    lab.hosts[3].power_off()
    lab.destroy()
    assert lab.leaks() == []

A host sees this machine's files through a private writeable layer: it may write anywhere, and nothing of it is left.
Needs root, ``ip`` and ``sshd``; see ``missing``.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sgdeploy.plan.model import PlanHost
from tests.kit import client, netns
from tests.kit.labhost import LabHost

CHECKOUT = Path(__file__).resolve().parents[2]
LABD = Path(__file__).with_name("labd.py")
START_LIMIT = 60.0
STOP_LIMIT = 20.0
TOOLS = ("ip", "nsenter", "pivot_root", "ssh", "sshd", "sudo")


def missing() -> str:
    """Say why no lab can be made here, or ""."""
    if os.geteuid() != 0:
        return "hosts of namespaces need root"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [tool for tool in TOOLS if shutil.which(tool, path=path) is None]
    return f"not installed: {', '.join(absent)} (packages iproute2, util-linux, openssh-server, sudo)" if absent else ""


@dataclass
class Lab:
    """Hosts on one bridge, and a client with a home of its own.

    Attributes:
        hosts: in order.
        folder: everything that the lab keeps in this machine's file system.
        address: the client's address.
    """

    hosts: list[LabHost]
    folder: Path
    address: str
    _power: Power = field(repr=False)
    _namespaces: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def create(
        cls,
        count: int,
        *,
        prefix: str = "n",
        disk: str = "64m",
        shm: str = "64m",
        nic: str = "eth0",
        max_startups: str = "1000",
        sshd: str = "",
    ) -> Lab:
        """Make hosts ``n01``, ``n02``, … and wait until their sshd listens.

        Args:
            count: 1 to 1000; a bridge of the kernel takes 1023 cables.
            prefix: of the host names.
            disk: size of a host's disk, as tmpfs takes it.
            shm: size of its /dev/shm.
            nic: name of its network interface.
            max_startups: of sshd.
            sshd: more lines for its sshd_config.

        Raises:
            RuntimeError: something failed; nothing is left.
        """
        folder = Path(tempfile.mkdtemp(prefix="sgdeploy-lab-"))
        width = max(2, len(str(count)))
        rows = [(f"{prefix}{i:0{width}}", client.address(i), f"fd77::{i:x}") for i in range(1, count + 1)]
        key = client.key_pair("client")
        client.write_home(folder / "home", key, rows)
        etc_hosts = "127.0.0.1 localhost\n" + "".join(f"{v4} {name}\n" for name, v4, _ in rows)
        config = client.sshd_config(max_startups, sshd)
        settings = {
            "folder": str(folder),
            "address": "10.77.0.254/16",
            "address6": "fd77::ffff/64",
            "nic": nic,
            "disk": disk,
            "shm": shm,
            "sshd": client.SSHD_COMMAND,
            "hosts": {
                name: {
                    "name": name,
                    "address": f"{v4}/16",
                    "address6": f"{v6}/64",
                    "files": client.host_files(name, key, config, etc_hosts),
                }
                for name, v4, v6 in rows
            },
        }
        lab = cls([], folder, "10.77.0.254", Power(folder))
        try:
            pids = lab._power.ask(json.dumps(settings))
        except BaseException:
            lab.destroy()
            raise
        lab.hosts = [LabHost(name, v4, v6, pids[name], lab) for name, v4, v6 in rows]
        lab._remember()
        return lab

    def host(self, name: str) -> LabHost:
        """Give a host by name."""
        return next(host for host in self.hosts if host.name == name)

    @property
    def home(self) -> Path:
        """The client's home folder."""
        return self.folder / "home"

    @property
    def environment(self) -> dict[str, str]:
        """What a program of the client gets: its home, no agent, our package, no trace of the caller's settings."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "SGDEPLOY_TEST") if name in os.environ}
        return {**kept, "HOME": str(self.home), "PYTHONPATH": str(CHECKOUT), "TERM": "dumb"}

    @property
    def power_pid(self) -> int:
        """Process that all hosts hang on."""
        return self._power.pid

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Move this thread into the lab's network: sockets and programs that it makes reach the hosts."""
        with netns.entered(self._power.pid):
            yield

    def command(self, argv: Sequence[str]) -> list[str]:
        """Give the command that runs another one on the client."""
        return ["nsenter", f"--net=/proc/{self._power.pid}/ns/net", "--", *argv]

    def run(self, argv: Sequence[str], *, limit: float = 30.0) -> str:
        """Run a command on the client, in its home, and give its output.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        environment = {**self.environment, **{k: v for k, v in os.environ.items() if k == "SSH_AUTH_SOCK"}}
        return subprocess.run(
            self.command(argv),
            cwd=self.home,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=limit,
        ).stdout

    def popen(
        self, *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[str]:
        """Start ``sgdeploy ARGS`` on the client; output in pipes unless the options say otherwise."""
        return subprocess.Popen(
            self.command([sys.executable, "-m", "sgdeploy", *args]),
            cwd=cwd or self.home,
            env={**self.environment, **(env or {})},
            text=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )

    def sgdeploy(
        self, *args: str, limit: float = 100.0, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``sgdeploy ARGS`` on the client and wait for it, at most ``limit`` seconds."""
        with self.popen(*args, cwd=cwd, env=env) as process:
            try:
                out, err = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def plan_host(self, host: LabHost, /, **changes: Any) -> PlanHost:
        """Give a host as a plan has it."""
        values = {"host": host.name, "address": host.address, "ssh": host.name}
        return PlanHost(**{**values, "run_dir": f"/var/lib/sgdeploy/lab/{host.name}", **changes})

    def ip(self, *words: str) -> None:
        """Run ``ip`` in the lab's network."""
        subprocess.run(self.command(["ip", *words]), check=True, capture_output=True, timeout=STOP_LIMIT)

    def switch_on(self, host: LabHost) -> None:
        """Boot a host that is off."""
        host.pid = self._power.ask(host.name)[host.name]
        self._remember()

    def strays(self) -> list[netns.Proc]:
        """List processes of the client that still run (this very process apart)."""
        inside = netns.inhabitants(frozenset({netns.identity(self._power.pid, "net")}) - {""})
        return [proc for proc in inside if proc.pid not in {self._power.pid, os.getpid()}]

    def destroy(self) -> None:
        """Take everything away; may be called again."""
        for proc in self.strays():
            with contextlib.suppress(ProcessLookupError):
                os.kill(proc.pid, signal.SIGKILL)
        self._power.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def leaks(self) -> list[str]:
        """List what is left after ``destroy``: processes in namespaces of the lab, mounts, its folder."""
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        left = [proc for proc in netns.inhabitants(frozenset(self._namespaces)) if not self._is_anothers(proc)]
        return [
            *(f"process {proc.pid}: {' '.join(proc.argv)}" for proc in left),
            *(f"mount: {line}" for line in mounts if str(self.folder) in line),
            *([f"folder: {self.folder}"] if self.folder.exists() else []),
        ]

    def _is_anothers(self, proc: netns.Proc) -> bool:
        """Tell whether it belongs to a lab that somebody else has: the kernel gives a dead namespace's number again."""
        powers = {each.pid for each in netns.lineage(proc.pid) if each.argv[-1].endswith(LABD.name)}
        return bool(powers - {self._power.pid})

    def _remember(self) -> None:
        for pid in (self._power.pid, *(host.pid for host in self.hosts)):
            self._namespaces |= netns.identities(pid)


@contextlib.contextmanager
def lent(count: int, **how: Any) -> Iterator[Lab]:
    """Lend a lab to the body of the ``with``, and prove afterwards that nothing of it is left.

    Args:
        count: of hosts.
        how: other arguments of ``Lab.create``.

    Raises:
        AssertionError: programs of the client still ran at the end, or something of the lab is left.
    """
    made = Lab.create(count, **how)
    try:
        yield made
        strays = made.strays()
    finally:
        made.destroy()
    assert made.leaks() == []
    assert strays == [], "programs of the client still ran at the end"


class Power:
    """The running ``labd.py``."""

    def __init__(self, folder: Path) -> None:
        """Start it; what it says of its own goes to ``labd.log``."""
        with (folder / "labd.log").open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LABD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def ask(self, line: str) -> dict[str, int]:
        """Send a line and give the pids it answers with.

        Raises:
            RuntimeError: it could not do what was asked.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            message = "labd has no pipes"
            raise RuntimeError(message)
        stdin.write(line.encode() + b"\n")
        stdin.flush()
        if not select.select([stdout], [], [], START_LIMIT)[0]:
            message = f"labd did not answer within {START_LIMIT:g} s"
            raise RuntimeError(message)
        answer: dict[str, Any] = json.loads(stdout.readline() or b'{"error": "labd ended"}')
        if "error" in answer:
            message = f"the lab cannot be made: {answer['error']}"
            raise RuntimeError(message)
        pids: dict[str, int] = answer["pids"]
        return pids

    def end(self) -> None:
        """End it, and with it every host; may be called again."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_LIMIT)
