"""Cores and NUMA nodes: which there are, which a session of ours may use, and whether the plan's fit.

A container, a cgroup or a batch job may allow fewer cores than the machine has; ``Cpus_allowed_list`` of a process
is the truth, not the list of cpus (sgl-project/sglang issue 20437). Memory nodes likewise (numactl issue 223).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sgdeploy.facts.model import Finding, NumaNode
from sgdeploy.facts.raw import Raw, Wanted
from sgdeploy.facts.subject import Subject, sysfs
from sgdeploy.facts.text import KIB, read_numbers
from sgdeploy.plan.model import PlanHost
from sgdeploy.words import number_list

STATUS = "/proc/self/status"
PRESENT = "/sys/devices/system/cpu/present"
ONLINE = "/sys/devices/system/cpu/online"
NODES = "/sys/devices/system/node"

_NODE = re.compile(r"/node(\d+)/")


def wanted(host: PlanHost) -> Wanted:
    """Ask for cpu lists, allowed lists, and NUMA nodes (of the redirected sysfs, where the plan has one)."""
    nodes = sysfs(host, NODES)
    return Wanted(
        files=(STATUS, PRESENT, ONLINE, f"{nodes}/online", f"{nodes}/node*/cpulist", f"{nodes}/node*/meminfo"),
    )


def present(raw: Raw) -> tuple[int, ...]:
    """Read the cpus that the kernel knows."""
    return read_numbers(raw.file(PRESENT))


def online(raw: Raw) -> tuple[int, ...]:
    """Read the cpus that run."""
    return read_numbers(raw.file(ONLINE))


def allowed(raw: Raw, what: str) -> tuple[int, ...]:
    """Read ``Cpus_allowed_list`` or ``Mems_allowed_list`` of our own process."""
    match = re.search(rf"^{what}:\s*(\S*)$", raw.file(STATUS), re.MULTILINE)
    return read_numbers(match.group(1)) if match else ()


def numa(raw: Raw) -> dict[int, NumaNode]:
    """Read the NUMA nodes: cpus from ``cpulist``, memory from ``meminfo``."""
    cpus = {int(m[1]): read_numbers(text) for m, text in raw.files(rf"{NODES}/node(\d+)/cpulist")}
    memory = {int(m[1]): text for m, text in raw.files(rf"{NODES}/node(\d+)/meminfo")}
    return {
        number: NumaNode(
            number,
            cpus.get(number, ()),
            _kilobytes(memory.get(number, ""), "MemTotal"),
            _kilobytes(memory.get(number, ""), "MemFree"),
        )
        for number in sorted(cpus.keys() | memory.keys())
    }


def _kilobytes(text: str, key: str) -> int | None:
    match = re.search(rf"\b{key}:\s*(\d+) kB", text)
    return int(match.group(1)) * KIB if match else None


def node_of(path: str) -> int | None:
    """Give the NUMA node that a sysfs path belongs to, None for one of the whole host."""
    match = _NODE.search(path)
    return int(match.group(1)) if match else None


def check(subject: Subject) -> Iterator[Finding]:
    """Hold the plan's cores and NUMA nodes against the host's."""
    yield from _cores(subject)
    yield from _nodes(subject)


def _cores(subject: Subject) -> Iterator[Finding]:
    planned = {core for process in subject.processes for core in process.cores or ()}
    facts = subject.facts
    there = facts.cpus_online or facts.cpus_present
    missing = planned - set(there) if there else set()
    if missing:
        yield subject.error(
            "cores-missing",
            f"planned cores that do not exist or are offline: {number_list(missing)} (online: {number_list(there)})",
            "check that the profile's platform is this host's, plan fewer ranks per node, or set node.pin: false",
        )
    refused = planned - missing - set(facts.cpus_allowed) if facts.cpus_allowed else set()
    if refused:
        yield subject.error(
            "cores-not-allowed",
            f"planned cores that a session here may not use: {number_list(refused)} "
            f"(Cpus_allowed_list: {number_list(facts.cpus_allowed)})",
            "widen the cpuset of the container, cgroup or batch job that sshd runs in, or plan fewer ranks per node",
        )


def _nodes(subject: Subject) -> Iterator[Finding]:
    bound = {node for process in subject.processes for node in process.memory_nodes or ()}
    written = {node for path in subject.writes if (node := node_of(path)) is not None}
    facts = subject.facts
    missing = (bound | written) - facts.numa.keys() if facts.numa else set()
    if missing:
        yield subject.error(
            "numa-missing",
            f"planned NUMA nodes that do not exist: {number_list(missing)} (online: {number_list(facts.numa)})",
            "check that the profile's platform is this host's, and that the firmware shows its memory nodes",
        )
    refused = bound - missing - set(facts.mems_allowed) if facts.mems_allowed else set()
    if refused:
        yield subject.error(
            "numa-not-allowed",
            f"planned NUMA nodes whose memory a session here may not use: {number_list(refused)} "
            f"(Mems_allowed_list: {number_list(facts.mems_allowed)})",
            "widen the cpuset of the container, cgroup or batch job that sshd runs in",
        )
