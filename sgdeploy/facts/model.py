"""What a host is like, and what is wrong with it, as frozen values.

Sizes are bytes, times seconds. None means "could not be read": a check that needs the value then says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address

from sgdeploy.problems import Level
from sgdeploy.weights.cut.manifest import Head


@dataclass(frozen=True)
class Finding:
    """One way in which a host does not fit the plan.

    Attributes:
        code: stable short name (``port-taken``); docs/preflight.md lists them.
        level: an error stops before anything is changed; a warning is told and goes on.
        host: inventory name.
        message: what is wrong, with the evidence. It does not name the host, so that equal ones can be grouped.
        hint: the next step.
    """

    code: str
    level: Level
    host: str
    message: str
    hint: str


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node; a memory-only one (on-package memory) has no cpus."""

    number: int
    cpus: tuple[int, ...] = ()
    memory_total: int | None = None
    memory_free: int | None = None


@dataclass(frozen=True)
class HugePool:
    """Hugepages of one size, of one NUMA node or (``node`` None) of the whole host.

    Attributes:
        node: NUMA node.
        size: bytes of one page.
        total: pages that exist now.
        free: pages that nobody uses.
    """

    node: int | None
    size: int
    total: int
    free: int | None = None


@dataclass(frozen=True)
class Space:
    """The file system behind a path.

    Attributes:
        total: its size.
        free: what our user may still fill.
        inodes_free: file names it may still take; 0 where the file system does not count them.
        writable: whether our user may write there.
        nearest: the path itself, or the nearest folder above it that exists.
        error: why it could not be measured (a dead mount), "" otherwise.
    """

    total: int | None = None
    free: int | None = None
    inodes_free: int | None = None
    writable: bool | None = None
    nearest: str = ""
    error: str = ""


@dataclass(frozen=True)
class PathFact:
    """What is at a path, as our user sees it.

    Attributes:
        exists: whether it was seen; it may exist all the same where ``error`` says why we cannot look.
        kind: ``file``, ``folder`` or another word of the node helper.
        executable: whether our user may run it (enter it, for a folder).
        readable: whether our user may read it.
        size: bytes of a file; None where it was not told.
        error: why we cannot look (no permission, a dead mount), "" otherwise.
    """

    exists: bool
    kind: str | None = None
    executable: bool = False
    readable: bool = False
    size: int | None = None
    error: str = ""

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return self.exists and self.kind == "folder"


@dataclass(frozen=True)
class Limit:
    """A resource limit of a session on the host; None means unlimited."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True)
class HostFacts:
    """Everything preflight knows of one host.

    Attributes:
        host: inventory name.
        python: version of the python3 that runs the node helper, such as (3, 11, 2).
        user: whom we are there.
        uid: its number; 0 is root.
        hostname: what the host calls itself.
        boot_id: identity of the running kernel; shared by containers of one machine.
        clock_offset: its wall clock minus ours, seconds; None where nobody compared.
        kernel: release, such as ``6.6.0-28.oe2403.aarch64``.
        arch: ``aarch64``, ``x86_64``.
        cpus_present: cpus that the kernel knows.
        cpus_online: cpus that run.
        cpus_allowed: Cpus_allowed_list of a session of ours (cpuset of container, cgroup or job).
        mems_allowed: Mems_allowed_list, likewise.
        numa: NUMA nodes that are online.
        huge: pools of hugepages, per node and for the host.
        page_size: base page.
        memory_total: MemTotal.
        memory_available: MemAvailable.
        shm: /dev/shm.
        run_dir: the file system that the run folder will lie on.
        interfaces: network interface → its addresses; one without any has an empty tuple; "" holds addresses
            whose interface could not be told.
        resolved: host names of the plan → addresses that the host resolves them to, empty where it cannot.
        ephemeral: first and last port that the kernel gives to outgoing connections.
        reserved: ports that it leaves out of that range.
        nofile: limit of open files.
        memlock: limit of locked memory in bytes.
        modules: kernel modules that are loaded, as the kernel spells them.
        parameters: loaded module of the plan → its parameters and their values.
        proxies: proxy variables of a session, passwords removed; names in lower case.
        tools: program → its path, None where it is not in PATH.
        installed: look for a package → what a Python of the host said, see ``facts.installed``.
        paths: what is at each path that was asked for.
        splits: model folder → head of the split of weights in it, or what is wrong with that head.
    """

    host: str
    python: tuple[int, ...] = ()
    user: str = ""
    uid: int | None = None
    hostname: str = ""
    boot_id: str = ""
    clock_offset: float | None = None
    kernel: str = ""
    arch: str = ""
    cpus_present: tuple[int, ...] = ()
    cpus_online: tuple[int, ...] = ()
    cpus_allowed: tuple[int, ...] = ()
    mems_allowed: tuple[int, ...] = ()
    numa: Mapping[int, NumaNode] = field(default_factory=dict)
    huge: tuple[HugePool, ...] = ()
    page_size: int | None = None
    memory_total: int | None = None
    memory_available: int | None = None
    shm: Space | None = None
    run_dir: Space | None = None
    interfaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    resolved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ephemeral: tuple[int, int] | None = None
    reserved: tuple[int, ...] = ()
    nofile: Limit | None = None
    memlock: Limit | None = None
    modules: frozenset[str] = frozenset()
    parameters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    proxies: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str | None] = field(default_factory=dict)
    installed: Mapping[str, str] = field(default_factory=dict)
    paths: Mapping[str, PathFact] = field(default_factory=dict)
    splits: Mapping[str, Head | str] = field(default_factory=dict)

    def interface_of(self, address: str) -> str | None:
        """Name the interface that carries an address (textual forms of IPv6 do not matter); None for none."""
        wanted = ip_address(address.partition("%")[0])
        for name, addresses in self.interfaces.items():
            if any(ip_address(own) == wanted for own in addresses):
                return name
        if isinstance(wanted, IPv4Address) and wanted.is_loopback and "lo" in self.interfaces:
            return "lo"
        return None
