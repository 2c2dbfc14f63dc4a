"""One host of a lab: its files, its processes, and everything that can go wrong with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit import client, netns

if TYPE_CHECKING:
    from tests.kit.hosts import Lab


def wait_until(true: Callable[[], bool], what: str, limit: float = 10.0) -> None:
    """Wait for something that gives no sign of its own.

    Raises:
        TimeoutError: ``what`` did not come true in time.
    """
    deadline = time.monotonic() + limit
    while not true():
        if time.monotonic() > deadline:
            message = f"waited {limit:g} s for: {what}"
            raise TimeoutError(message)
        time.sleep(0.01)


@dataclass
class LabHost:
    """One host.

    Attributes:
        name: host name, inventory name, and alias in the client's ssh configuration.
        address: IPv4 address.
        address6: IPv6 address.
        pid: its process 1, as this machine counts.
    """

    name: str
    address: str
    address6: str
    pid: int
    lab: Lab = field(repr=False)

    @property
    def root(self) -> Path:
        """Its file system, to read and write from outside."""
        return Path(f"/proc/{self.pid}/root")

    def path(self, path: str) -> Path:
        """Give a path of the host as seen from outside."""
        return self.root / path.lstrip("/")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file on the host; folders are made."""
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)

    def command(self, argv: Sequence[str]) -> list[str]:
        """Give the command that runs another one on the host, as root, without its sshd."""
        return ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "--", *argv]

    def run(
        self, argv: Sequence[str], *, stdin: str = "", limit: float = 30.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the host without its sshd."""
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        return subprocess.run(
            self.command(argv),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=limit,
            check=check,
            env=environment,
        )

    def processes(self) -> list[netns.Proc]:
        """List its processes."""
        return netns.inhabitants(frozenset({netns.identity(self.pid, "pid")}) - {""})

    def wait_idle(self, limit: float = 10.0) -> None:
        """Wait until process 1 and the sshd that listens are all that runs.

        Raises:
            TimeoutError: names what else does.
        """
        deadline = time.monotonic() + limit
        while len(running := self.processes()) > 2:
            if time.monotonic() > deadline:
                message = f"after {limit:g} s there still run on {self.name}: {running}"
                raise TimeoutError(message)
            time.sleep(0.01)

    def sshd_log(self) -> str:
        """Give what its sshd wrote."""
        return self.path("/var/log/sshd.log").read_text(encoding="utf-8", errors="replace")

    def power_off(self) -> None:
        """Cut the power: silence on the network first, then no process any more."""
        self.cut()
        os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: netns.process(self.pid) is None, f"the end of {self.name}")

    def power_on(self) -> None:
        """Boot it again: fresh disk, new boot id, same keys and addresses."""
        self.lab.switch_on(self)

    def cut(self) -> None:
        """Pull its network cable."""
        self.lab.ip("link", "set", self.name, "down")

    def mend(self) -> None:
        """Plug its network cable in again."""
        self.lab.ip("link", "set", self.name, "up")

    def refuse(self) -> None:
        """Stop the sshd that listens; sessions that are open go on."""
        pid = self._sshd()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: netns.process(pid) is None, f"the end of sshd on {self.name}")
        self.path("/run/sshd.pid").unlink()

    def hang(self) -> None:
        """Let the kernel accept connections while sshd never says a word."""
        os.kill(self._sshd(), signal.SIGSTOP)

    def serve(self) -> None:
        """Undo ``refuse`` or ``hang``."""
        if self.path("/run/sshd.pid").exists():
            os.kill(self._sshd(), signal.SIGCONT)
            return
        self.run(client.SSHD_COMMAND)
        wait_until(self.path("/run/sshd.pid").exists, f"sshd on {self.name}")

    def change_host_key(self) -> str:
        """Give it a new host key, as a new installation would; returns the public half."""
        key = client.new_key(self.name)
        self.refuse()
        self.write(client.HOST_KEY, key.private, 0o600)
        self.serve()
        return key.public

    def without_python(self) -> None:
        """Take every python3 out of the folders that a login shell looks into."""
        for folder in ("/usr/local/bin", "/usr/bin", "/bin"):
            for file in self.path(folder).glob("python3*"):
                file.unlink()

    def add_user(self, name: str) -> None:
        """Add an account without rights that takes the client's key."""
        home = f"/home/{name}"
        for path, line in (
            ("/etc/passwd", f"{name}:x:4711:4711::{home}:/bin/bash\n"),
            ("/etc/shadow", f"{name}:*:19000:0:99999:7:::\n"),
            ("/etc/group", f"{name}:x:4711:\n"),
        ):
            with self.path(path).open("a", encoding="utf-8") as file:
                file.write(line)
        self.path(home).mkdir(parents=True)
        os.chown(self.path(home), 4711, 4711)

    def fill_disk(self, leave: int = 0) -> None:
        """Use its disk up but for about ``leave`` bytes."""
        space = os.statvfs(self.root)
        size = space.f_bavail * space.f_frsize - leave
        with self.path("/var/filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(size, 1))

    def _sshd(self) -> int:
        inner = int(self.path("/run/sshd.pid").read_text(encoding="ascii"))
        return next(proc.pid for proc in self.processes() if proc.inner_pid == inner)
