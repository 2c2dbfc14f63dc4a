"""What to ask of a host, from the plan alone."""

from __future__ import annotations

from typing import Any

from sgdeploy.facts import cpu, disk, installed, memory, net, ports, proxies, software, splits
from sgdeploy.plan.model import Plan, PlanHost


def gather_request(plan: Plan, host: PlanHost) -> dict[str, Any]:
    """Give the arguments of the node operation ``gather``: files, commands, stat, space."""
    processes = tuple(plan.on_host(host.host))
    parts = (
        cpu.wanted(host),
        memory.wanted(host, processes),
        net.wanted(host, processes),
        ports.wanted(),
        proxies.wanted(),
        disk.wanted(host, processes),
        software.wanted(host),
        installed.wanted(processes),
        splits.wanted(plan, processes),
    )
    return sum(parts[1:], start=parts[0]).to_json()


def ports_request(plan: Plan, host: PlanHost) -> list[dict[str, Any]]:
    """Give ``{address, port}`` of every port that the plan listens on there, for the node operation ``ports``."""
    return ports.listening(tuple(plan.on_host(host.host)))
