"""Memory: totals, hugepages per NUMA node, /dev/shm.

Hugepage sizes differ: with a base page of 64 KiB the default hugepage of aarch64 is 512 MiB, so no size is assumed.
The kernel silently gives fewer pages than asked; what the node cannot hold at all is told here, before anything is
written, and what it did give is read back after the write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from sgdeploy.facts.cpu import NODES, node_of
from sgdeploy.facts.model import Finding, HugePool
from sgdeploy.facts.raw import Raw, Wanted
from sgdeploy.facts.subject import Subject, hugepage_writes, sysfs
from sgdeploy.facts.text import GIB, KIB, MIB, write_page, write_size
from sgdeploy.plan.model import PlanHost, Process
from sgdeploy.words import name_list, number_list, plural

MEMINFO = "/proc/meminfo"
POOLS = "/sys/kernel/mm/hugepages"
SHM = str(PurePosixPath("/dev", "shm"))

SHM_LEAST = 1 * GIB
"""The engine shares memory between its processes there; the 64 MiB that containers get by default are known to fail
(sgl-project/sglang issues 1986 and 5096)."""

TRUSTED_SHARE = 0.9
"""Least share of the host's memory that its NUMA nodes must account for before their figures are believed; seen
otherwise on a virtual machine with hot-plugged memory: 4.2 GiB of 23.5 GiB."""

_POOL = re.compile(r"hugepages-(\d+)kB/")


def wanted(host: PlanHost, processes: tuple[Process, ...]) -> Wanted:
    """Ask for totals, all hugepage pools, /dev/shm, and the very files that will be written."""
    pools = (f"{sysfs(host, POOLS)}/hugepages-*", f"{sysfs(host, NODES)}/node*/hugepages/hugepages-*")
    return Wanted(
        files=(MEMINFO, *(f"{pool}/{name}_hugepages" for pool in pools for name in ("nr", "free"))),
        stat=tuple(sysfs(host, path) for path in hugepage_writes(host, processes)),
        space=(SHM,),
    )


def meminfo(raw: Raw, key: str) -> int | None:
    """Read one line of /proc/meminfo in bytes."""
    match = re.search(rf"^{key}:\s*(\d+) kB", raw.file(MEMINFO), re.MULTILINE)
    return int(match.group(1)) * KIB if match else None


def huge(raw: Raw) -> tuple[HugePool, ...]:
    """Read all pools, the host's first, then by node and size; one that gives no number is none."""
    pools: dict[tuple[int, int], HugePool] = {}
    where = rf"(?:{POOLS}|{NODES}/node(\d+)/hugepages)/hugepages-(\d+)kB"
    for match, total in raw.counts(where + "/nr_hugepages"):
        node = int(match[1]) if match[1] else None
        size = int(match[2]) * KIB
        pools[-1 if node is None else node, size] = HugePool(node, size, total)
    for match, free in raw.counts(where + "/free_hugepages"):
        key = (int(match[1]) if match[1] else -1, int(match[2]) * KIB)
        if key in pools:
            pools[key] = replace(pools[key], free=free)
    return tuple(pools[key] for key in sorted(pools))


def check(subject: Subject) -> Iterator[Finding]:
    """Hold planned hugepages and shared memory against what the host has."""
    yield from _paths(subject)
    yield from _fit(subject)
    yield from _shm(subject)


def _paths(subject: Subject) -> Iterator[Finding]:
    facts = subject.facts
    missing = [
        path
        for path in subject.writes
        if (found := facts.paths.get(sysfs(subject.host, path))) is not None
        and not found.exists
        and (not facts.numa or node_of(path) is None or node_of(path) in facts.numa)
    ]
    if not missing:
        return
    sizes = sorted({pool.size for pool in facts.huge})
    have = ", ".join(write_page(size) for size in sizes) or "none"
    page = f" with its base page of {write_page(facts.page_size)}" if facts.page_size else ""
    what = f"no such file: {name_list(sysfs(subject.host, path) for path in missing)}"
    root = subject.host.sysfs_root
    if root:
        hint = "make a file for each of the plan's hugepage settings there (`sgdeploy plan PROFILE --json` lists them)"
        yield subject.error("hugepages-path", f"{what}; node.sysfs_root is {root}", hint)
        return
    yield subject.error(
        "hugepages-path",
        f"{what}; the kernel{page} offers hugepages of these sizes: {have}",
        "plan a size that this kernel has, or boot the kernel that the platform asks for",
    )


def _fit(subject: Subject) -> Iterator[Finding]:
    """Compare bytes asked of each node with its memory: all of it (error), and what is free now (warning)."""
    over: dict[str, list[int | None]] = {}
    tight: dict[str, list[int | None]] = {}
    for node, pools in _asked(subject).items():
        pages, size = sum(pools.values()), sum(page * pages for page, pages in pools.items())
        what = f"{plural(pages, 'page')} ({write_size(size)}) asked"
        total, free = _room(subject, node, pools)
        if total is not None and size > total:
            over.setdefault(f"{what}, {write_size(total)} in all", []).append(node)
        elif free is not None and size > free:
            tight.setdefault(f"{what}, {write_size(free)} free", []).append(node)
    if over:
        yield subject.error(
            "hugepages-memory",
            "hugepages do not fit: " + _by_node(over),
            "plan fewer pages (platform_settings), or check that this is the right kind of host",
        )
    if tight:
        yield subject.warning(
            "hugepages-tight",
            "hugepages may not fit, since memory is in use: " + _by_node(tight),
            "see who uses it (`numastat -m`), or drop the page cache: sync; echo 3 > /proc/sys/vm/drop_caches",
        )


def _by_node(texts: dict[str, list[int | None]]) -> str:
    """Write ``text on nodes 16-31; …``."""
    parts = []
    for text, nodes in texts.items():
        numbers = [node for node in nodes if node is not None]
        where = f"node{'s' if len(numbers) > 1 else ''} {number_list(numbers)}" if numbers else "the whole host"
        parts.append(f"{text} on {'each of ' if len(numbers) > 1 else ''}{where}")
    return "; ".join(parts)


def _asked(subject: Subject) -> dict[int | None, dict[int, int]]:
    """Give node → {bytes of a page: pages}, for all planned pools that are not emptied."""
    asked: dict[int | None, dict[int, int]] = {}
    for path, pages in subject.writes.items():
        match = _POOL.search(path)
        if match and pages:
            asked.setdefault(node_of(path), {})[int(match[1]) * KIB] = pages
    return asked


def _room(subject: Subject, node: int | None, pools: dict[int, int]) -> tuple[int | None, int | None]:
    """Give all memory, and what is free for these pools: free memory and the pages they have already."""
    facts = subject.facts
    if node is None:
        total, free = facts.memory_total, facts.memory_available
    else:
        known = facts.numa.get(node) if _nodes_add_up(subject) else None
        total, free = (known.memory_total, known.memory_free) if known else (None, None)
    if free is None:
        return total, None
    return total, free + sum(p.size * p.total for p in facts.huge if p.node == node and p.size in pools)


def _nodes_add_up(subject: Subject) -> bool:
    """Tell whether the nodes' memory sums up to the host's; with memory that was plugged in later it may not."""
    total = subject.facts.memory_total
    nodes = [node.memory_total for node in subject.facts.numa.values() if node.memory_total is not None]
    return total is None or sum(nodes) >= total * TRUSTED_SHARE


def _shm(subject: Subject) -> Iterator[Finding]:
    # A router shares memory with nobody.
    shm, engines = subject.facts.shm, [process for process in subject.real if process.role != "router"]
    if not engines or shm is None or shm.free is None or shm.total is None:
        return
    if shm.nearest != SHM:
        yield subject.warning(
            "shm-missing", f"{SHM} does not exist; the engine's processes share memory there", f"mount a tmpfs at {SHM}"
        )
        return
    need = max(SHM_LEAST, sum(_shm_pool(process) for process in engines))
    if shm.free < need:
        yield subject.warning(
            "shm-small",
            f"{SHM} has {write_size(shm.free)} free of {write_size(shm.total)}; "
            f"{plural(len(engines), 'engine process')} may need {write_size(need)}",
            f"remove what earlier runs left in {SHM}, or make it larger: mount -o remount,size=… {SHM} "
            "(a container: --shm-size)",
        )


def _shm_pool(process: Process) -> int:
    """Give the bytes that a process takes from /dev/shm by its own settings (kunpeng-920f: one pool per process)."""
    values = [value for name, value in process.env.items() if name.endswith("_SHM_SIZE_MB")]
    return max((int(value) for value in values if isinstance(value, str) and value.isdecimal()), default=0) * MIB
