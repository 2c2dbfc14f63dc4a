"""The raw answers of a host → facts. Pure: the same answers, recorded years ago, give the same facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgdeploy.facts import cpu, installed, memory, net, ports, proxies, software, splits
from sgdeploy.facts.model import HostFacts
from sgdeploy.facts.raw import Raw


def parse(
    host: str,
    hello: Mapping[str, Any],
    result: Mapping[str, Any],
    *,
    run_dir: str | None = None,
    clock_offset: float | None = None,
) -> HostFacts:
    """Understand what a host said.

    Args:
        host: inventory name.
        hello: the greeting of its node helper.
        result: the result of ``gather``, asked with ``wanted.gather_request``.
        run_dir: the run folder as asked for; None takes the one measured path that is not /dev/shm.
        clock_offset: its wall clock minus ours in seconds, where the caller compared them.

    Raises:
        ValueError: an answer has a form that no kernel gives.
    """
    raw = Raw(result)
    measured = [path for path in result.get("space") or {} if path != memory.SHM]
    folder = run_dir if run_dir is not None else next(iter(measured), "")
    return HostFacts(
        host=host,
        python=software.python(hello.get("python")),
        user=hello.get("user") or "",
        uid=hello.get("uid"),
        hostname=hello.get("hostname") or "",
        boot_id=hello.get("boot_id") or "",
        clock_offset=clock_offset,
        kernel=raw.file(software.KERNEL).strip(),
        arch=raw.part("machine").get("arch") or "",
        cpus_present=cpu.present(raw),
        cpus_online=cpu.online(raw),
        cpus_allowed=cpu.allowed(raw, "Cpus_allowed_list"),
        mems_allowed=cpu.allowed(raw, "Mems_allowed_list"),
        numa=cpu.numa(raw),
        huge=memory.huge(raw),
        page_size=raw.part("machine").get("page_size"),
        memory_total=memory.meminfo(raw, "MemTotal"),
        memory_available=memory.meminfo(raw, "MemAvailable"),
        shm=raw.space(memory.SHM),
        run_dir=raw.space(folder),
        interfaces=net.interfaces(raw),
        resolved=net.resolved(raw),
        ephemeral=ports.ephemeral(raw),
        reserved=ports.reserved(raw),
        nofile=software.limit(raw, "Max open files"),
        memlock=software.limit(raw, "Max locked memory"),
        modules=software.modules(raw),
        parameters=software.parameters(raw),
        proxies=proxies.proxies(raw),
        tools=raw.part("programs"),
        installed=installed.installed(raw),
        paths=raw.paths(),
        splits=splits.splits(raw),
    )
