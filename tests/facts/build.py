"""A small plan, and a host that fits it; tests change one thing at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sgdeploy.facts.model import Finding, HostFacts, HugePool, Limit, NumaNode, PathFact, Space
from sgdeploy.facts.preflight import check
from sgdeploy.facts.text import GIB, KIB, MIB
from sgdeploy.plan.model import FrontDoor, Health, Limits, Plan, PlanHost, Process

NODE = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"


def a_process(host: str = "n01", address: str = "10.0.0.1", rank: int = 0, **changes: Any) -> Process:
    """Give a rank that needs nothing but bash, python and its model."""
    fields: dict[str, Any] = {
        "id": f"demo/native/{host}/r{rank:02d}",
        "role": "native",
        "host": host,
        "address": address,
        "leader": rank == 0,
        "argv": ("python", "-m", "sglang.launch_server", "--model-path", "/models/tiny"),
        "listens": {"http": 30000 + rank},
        "log": f"native-r{rank:02d}.log",
        "health": Health(http="/health" if rank == 0 else None),
    }
    return Process(**{**fields, **changes})


def a_host(host: str = "n01", address: str = "10.0.0.1", **changes: Any) -> PlanHost:
    """Give a host that is reached by ssh."""
    fields: dict[str, Any] = {
        "host": host,
        "address": address,
        "ssh": host,
        "run_dir": f"/var/lib/sgdeploy/demo/{host}",
    }
    return PlanHost(**{**fields, **changes})


def a_plan(*processes: Process, hosts: tuple[PlanHost, ...] = ()) -> Plan:
    """Give a plan of these processes, on one host unless told otherwise."""
    return Plan(
        name="demo",
        topology="native",
        platform="cpu",
        engine_version="0.5.23",
        stages=(("native",),),
        hosts=hosts or (a_host(),),
        processes=processes or (a_process(),),
        front_door=FrontDoor(host="n01", address="10.0.0.1", port=30000, model="tiny"),
        limits=Limits(timeout=100, stall=50, grace=20),
    )


def fitting(host: str = "n01", address: str = "10.0.0.1", **changes: Any) -> HostFacts:
    """Give a host that fits: 8 cores on two NUMA nodes of 16 GiB, root, nothing in the way."""
    facts = HostFacts(
        host=host,
        python=(3, 11, 6),
        user="root",
        uid=0,
        hostname=host,
        boot_id=f"boot-{host}",
        clock_offset=0.0,
        kernel="6.6.0",
        arch="aarch64",
        cpus_present=tuple(range(8)),
        cpus_online=tuple(range(8)),
        cpus_allowed=tuple(range(8)),
        mems_allowed=(0, 1),
        numa={n: NumaNode(n, tuple(range(n * 4, n * 4 + 4)), 16 * GIB, 12 * GIB) for n in (0, 1)},
        huge=tuple(HugePool(n, 2 * MIB, 0, 0) for n in (None, 0, 1)),
        page_size=4 * KIB,
        memory_total=32 * GIB,
        memory_available=24 * GIB,
        shm=Space(16 * GIB, 16 * GIB, 1000, writable=True, nearest="/dev/shm"),
        run_dir=Space(100 * GIB, 50 * GIB, 100000, writable=True, nearest="/var/lib"),
        interfaces={"lo": ("127.0.0.1",), "eth0": (address, "fe80::1"), "eth1": ("192.168.7.1",)},
        ephemeral=(32768, 60999),
        memlock=Limit(None, None),
        tools={tool: f"/usr/bin/{tool}" for tool in ("bash", "setsid", "taskset", "numactl", "insmod")},
        paths={"/var/lib": folder(), "/models/tiny": folder()},
    )
    return replace(facts, **changes)


def folder() -> PathFact:
    """Give a folder that we may enter."""
    return PathFact(exists=True, kind="folder", executable=True, readable=True)


def file(*, executable: bool = False) -> PathFact:
    """Give a file that we may read."""
    return PathFact(exists=True, kind="file", executable=executable, readable=True)


def gone(error: str = "") -> PathFact:
    """Give what is not there, or cannot be looked at."""
    return PathFact(exists=False, error=error)


def findings(plan: Plan, *facts: HostFacts, listening: dict[str, list[dict[str, Any]]] | None = None) -> list[Finding]:
    """Run preflight over hosts."""
    return check(plan, {it.host: it for it in facts}, listening or {})
