"""Profiles for labs, and what a test asks of a deployment there."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until

SYSFS = "/tmp/sgdeploy-rehearsal-sysfs"
PAGES = SYSFS + "/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"
NUMA_NODES = 32
ROOMY = {"count": 2, "disk": "128m"}
"""A lab of two hosts with room for a run folder."""

QUICK = {"SGDEPLOY_REHEARSE_SPEED": "10", "SGDEPLOY_REHEARSE_HEALTH_SECONDS": "0.1"}
"""Environment of a simulated engine that loses no time."""

SPLIT_PROFILE = """\
version: 1
name: tiny
topology: native
platform: kunpeng-920f
platform_settings: {sdma: false}
model: {path: /split}
inventory: inventory.yaml
engine: {version: kunpeng, launch: rank, flags: {load-format: sharded_state}}
native: {hosts: rack1, parallel: {tp: 8, dp: 2}}
"""
"""A deployment of eight ranks that load a split of the tests' small checkpoint."""

BEFORE = 7
"""Hugepages that each node holds before anything is started: a value that nobody would restore by chance."""


def write_inventory(
    lab: Lab, folder: Path, *, ssh: str = "user: root", addresses: Mapping[str, str] | None = None
) -> Path:
    """Write an inventory of all hosts of the lab.

    Args:
        lab: where they are.
        folder: what the file goes into.
        ssh: the section of that name.
        addresses: host name → data address, where it is not the IPv4 one.
    """
    lines = ["version: 1", f"ssh: {{{ssh}}}", "defaults: {nic: eth0}", "groups:", "  rack1:"]
    for host in lab.hosts:
        address = (addresses or {}).get(host.name, host.address)
        lines.append(f'    - {{host: {host.name}, ssh: {host.name}, address: "{address}"}}')
    path = folder / "inventory.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def kunpeng_profile(lab: Lab, folder: Path, **env: str) -> Path:
    """Write a profile that puts the shipped Kunpeng one on the lab's hosts, with a warm-up that tests can fail."""
    write_inventory(lab, folder)
    count = len(lab.hosts)
    text = f"""\
version: 1
extends: [shipped:kunpeng/deepseek-v3-native.yaml, shipped:overlays/rehearsal.yaml]
name: dsv3
inventory: inventory.yaml
native:
  hosts: rack1
  parallel: {{tp: {16 * count}}}
  flags: {{skip-server-warmup: null}}
engine:
  env: {json.dumps({"SGDEPLOY_REHEARSE_SPEED": "1", **env})}
health: {{timeout: 90s, stall: 60s, grace: 5s}}
"""
    path = folder / "dsv3.yaml"
    path.write_text(text, encoding="utf-8")
    for host in lab.hosts:
        for node in range(NUMA_NODES):
            host.write(PAGES.format(node=node), f"{BEFORE}\n")
    return path


def small_profile(lab: Lab, folder: Path, *, extra: str = "", **env: str) -> Path:
    """Write a profile with one process on each host of the lab."""
    write_inventory(lab, folder)
    text = f"""\
version: 1
name: small
topology: native
platform: cpu
inventory: inventory.yaml
model: {{path: /models/none, served_name: small}}
engine:
  executable: rehearsal
  flags: {{max-total-tokens: 8192}}
  env: {json.dumps(env)}
native:
  hosts: rack1
  parallel: {{tp: {len(lab.hosts)}}}
health: {{timeout: 60s, stall: 40s, grace: 5s}}
{extra}"""
    path = folder / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def hugepages(host: LabHost) -> list[int]:
    """Give what each NUMA node of a host holds now."""
    return [int(host.path(PAGES.format(node=node)).read_text(encoding="ascii")) for node in range(NUMA_NODES)]


@dataclass(frozen=True)
class Events:
    """The JSON lines of one command."""

    rows: tuple[dict[str, Any], ...]

    @classmethod
    def read(cls, text: str) -> Events:
        """Read what ``--json`` printed."""
        return cls(tuple(json.loads(line) for line in text.splitlines() if line.strip()))

    def of(self, kind: str) -> Iterator[dict[str, Any]]:
        """Give the events of one kind."""
        return (row for row in self.rows if row["event"] == kind)

    def one(self, kind: str) -> dict[str, Any]:
        """Give the only event of a kind."""
        found = list(self.of(kind))
        assert len(found) == 1, f"{len(found)} events of kind {kind}"
        return found[0]


def engines(host: LabHost) -> list[int]:
    """Give pids of engine processes on a host: whatever runs engine.py or took an engine's title."""
    return [
        proc.pid
        for proc in host.processes()
        if any("engine.py" in word or word.startswith("sglang::") for word in proc.argv)
    ]


def main_of(host: LabHost) -> int:
    """Give the pid of the main process of the only engine on a host."""
    return next(proc.pid for proc in host.processes() if any("engine.py" in word for word in proc.argv))


RUN_FOLDERS = "/var/lib/sgdeploy"
KEPT = {"logs", "plans"}
"""Folders of a run folder that outlive a deployment, the latter as its history; beside them, trail and free lock."""
LISTEN, SSH = "0A", 22


def assert_nothing_left(hosts: Sequence[LabHost]) -> None:
    """Prove that hosts are as before.

    No engine, no keeper or helper; no file but logs, history and audit trail; no lock held, no port but sshd's open;
    hugepages as they were.
    """
    for host in hosts:
        wait_until(partial(_is_clean, host), f"{host.name} without a process of ours")
        files = [path for path in host.path(RUN_FOLDERS).rglob("*") if path.is_file()]
        left = [path for path in files if not KEPT & {*path.parts} and path.name not in {"audit.log", "lock"}]
        assert left == [], f"{host.name}: {left}"
        held = [path for path in files if path.name == "lock" and not _is_free(path)]
        assert held == [], f"{host.name}: {held}"
        assert listening(host) <= {SSH}, f"{host.name} listens on {listening(host)}"
        pages = [host.path(PAGES.format(node=node)) for node in range(NUMA_NODES)]
        assert {int(path.read_text(encoding="ascii")) for path in pages if path.exists()} <= {BEFORE}, host.name


def make_as_before(host: LabHost) -> None:
    """Take everything of ours away from a host, so that the failure of one test is not that of the next ones."""
    for proc in host.processes():
        if proc.inner_pid != 1 and not any("sshd" in word for word in proc.argv[:1]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(proc.pid, signal.SIGKILL)
    shutil.rmtree(host.path(RUN_FOLDERS), ignore_errors=True)


def _is_free(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def listening(host: LabHost) -> set[int]:
    """Give the TCP ports on which anything listens."""
    found: set[int] = set()
    for family in ("tcp", "tcp6"):
        rows = Path(f"/proc/{host.pid}/net/{family}").read_text(encoding="ascii").splitlines()[1:]
        fields = [row.split() for row in rows]
        found |= {int(row[1].rpartition(":")[2], 16) for row in fields if row[3] == LISTEN}
    return found


def _is_clean(host: LabHost) -> bool:
    return not _ours(host)


def _ours(host: LabHost) -> list[str]:
    return [
        " ".join(proc.argv)[:120]
        for proc in host.processes()
        if proc.inner_pid != 1 and not any("sshd" in word for word in proc.argv[:1])
    ]
