"""Ranks of either engine on the hosts of a lab, started without sgdeploy: their logs, processes, signals and ends."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from sgdeploy.parcels import shipped
from tests.engine import home
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until

HTTP_PORT = 30000
RENDEZVOUS_PORT = 25000
PATIENCE = 150.0
"""Seconds for anything that a rank does by itself; a start takes 15 on an idle machine."""

GONE_LIMIT = 20.0
NOTHING: Mapping[str, str] = MappingProxyType({})
HEALTH_LIMIT = 3.0
"""Seconds until /health gives up: the engine's own 20 s are too long to wait for."""

FLAGS = {
    "served-model-name": "tiny",
    "device": "cpu",
    "attention-backend": "torch_native",
    "max-total-tokens": "8192",
}
SWITCHES = ("--sleep-on-idle", "--disable-radix-cache", "--disable-overlap-schedule")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "SGLANG_USE_CPU_ENGINE": "1",
    "SGLANG_CPU_OMP_THREADS_BIND": "0",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "GLOO_SOCKET_IFNAME": "eth0",
    "SGLANG_HEALTH_CHECK_TIMEOUT": f"{HEALTH_LIMIT:g}",
}


@dataclass(frozen=True)
class Kind:
    """One of the two engines.

    Attributes:
        name: in messages.
        command: the first words of its command line, up to the flags; ``{folder}`` has the simulated ``engine.py``.
        env: variables of its own.
    """

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]


REAL = Kind("real", (str(home.PYTHON), "-m", "sglang.launch_server"), NOTHING)
SIMULATED = Kind(
    "simulated",
    ("python3", "-I", "-S", "{folder}/engine.py"),
    {"SGDEPLOY_REHEARSE_SPEED": "0.5"},  # its phases must be longer than the time between two looks
)


@dataclass
class Rank:
    """One rank, a node of its own, on a host where no other one runs.

    Attributes:
        host: where it runs.
        popen: ``nsenter``, which ends as its child, the engine's main process, ends.
        path: its log, on this machine.
    """

    host: LabHost
    popen: subprocess.Popen[bytes]
    path: Path

    @property
    def main(self) -> int:
        """Pid of its main process, as this machine counts."""
        children = Path(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children")
        return int(children.read_text(encoding="ascii").split()[0])

    @property
    def scheduler(self) -> int:
        """Pid of its scheduler."""
        return next(pid for title, pid in processes(self.host) if title.startswith("sglang::scheduler"))

    @property
    def log(self) -> str:
        """All it has written."""
        return self.path.read_text(encoding="utf-8", errors="replace")

    def mark(self) -> int:
        """Give the place that the log has reached."""
        return len(self.log)

    def sees(self, text: str, after: int = 0) -> Rank:
        """Wait until its log has the text."""
        said = f"{text!r} in the log of {self.host.name}"
        wait_until(lambda: text in self.log[after:] or self.popen.poll() is not None, said, PATIENCE)
        assert text in self.log[after:], f"{self.host.name} ended without {text!r}:\n{self.log[-3000:]}"
        return self

    def stop(self, number: signal.Signals) -> None:
        """Send a signal to its main process."""
        os.kill(self.main, number)

    def ended(self) -> str:
        """Wait for its end and say how it ended: ``exit 0``, ``SIGKILL``."""
        code = self.popen.wait(PATIENCE)
        return signal.Signals(-code).name if code < 0 else f"exit {code}"


def processes(host: LabHost) -> list[tuple[str, int]]:
    """Give title and pid of all that runs on a host beside its own process 1 and sshd.

    What has no title of the engine's is ``python``: main, children that still import, and Python's own helpers.
    """
    return [
        (proc.argv[0] if proc.argv[0].startswith("sglang::") else "python", proc.pid)
        for proc in host.processes()
        if proc.inner_pid != 1 and not proc.argv[0].startswith(("sshd", "nsenter"))
    ]


def kill_all(host: LabHost) -> None:
    """Kill what runs on a host, as a power cut would end it, and wait until nothing of it is left."""
    for _, pid in processes(host):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes(host), f"the end of all ranks on {host.name}", GONE_LIMIT)


@dataclass
class Ranks:
    """The ranks of one engine on a lab of two hosts.

    Attributes:
        kind: which engine.
        lab: the hosts.
        folder: where logs go.
    """

    kind: Kind
    lab: Lab
    folder: Path
    started: list[Rank] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Write the script of the simulated engine, once: no rank may read it half-written."""
        folder = self.folder / self.kind.name
        folder.mkdir()
        (folder / "engine.py").write_text(shipped("rehearse/engine.py"), encoding="utf-8")

    def start(
        self, node: int, *flags: str, rendezvous: int = RENDEZVOUS_PORT, env: Mapping[str, str] = NOTHING
    ) -> Rank:
        """Start a node of a two-node instance, tensor parallel 2, on the host of its number.

        Args:
            node: its node rank.
            flags: more words for the command line.
            rendezvous: the port on the first host where it looks for the other.
            env: more variables.
        """
        host = self.lab.hosts[node]
        meeting = f"{self.lab.hosts[0].address}:{rendezvous}"
        own = {"host": host.address, "port": str(HTTP_PORT), "model-path": str(home.MODEL)}
        cluster = {"nnodes": "2", "tp-size": "2", "dist-init-addr": meeting, "node-rank": str(node)}
        words = [word for name, value in {**own, **cluster, **FLAGS}.items() for word in (f"--{name}", value)]
        command = [word.format(folder=self.folder / self.kind.name) for word in self.kind.command]
        path = self.folder / f"{self.kind.name}-{len(self.started)}-{host.name}.log"
        with path.open("wb") as log:
            popen = subprocess.Popen(
                host.command([*command, *words, *SWITCHES, *flags]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**ENVIRONMENT, "SGLANG_HOST_IP": host.address, "TMPDIR": str(self.folder), **self.kind.env, **env},
            )
        rank = Rank(host, popen, path)
        self.started.append(rank)
        return rank

    def left(self) -> list[str]:
        """List the titles of engine processes that live on any host."""
        found = [title for host in self.lab.hosts for title, _ in processes(host)]
        return sorted(title for title in found if title != "python")

    def clear(self) -> None:
        """Kill what is left on the hosts and wait for every rank."""
        for host in self.lab.hosts:
            kill_all(host)
        for rank in self.started:
            rank.popen.wait(GONE_LIMIT)
