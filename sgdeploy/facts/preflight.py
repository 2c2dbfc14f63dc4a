"""Does every host fit the plan? All findings of all hosts at once, before anything is changed anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sgdeploy.facts import cpu, disk, installed, memory, net, ports, proxies, software, splits
from sgdeploy.facts.compare import compare
from sgdeploy.facts.model import Finding, HostFacts
from sgdeploy.facts.subject import Subject
from sgdeploy.plan.model import Plan

_CHECKS = (
    software.check,
    installed.check,
    disk.check,
    splits.check,
    cpu.check,
    memory.check,
    net.check,
    ports.check,
    proxies.check,
)


def check(
    plan: Plan, facts: Mapping[str, HostFacts], listening: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[Finding]:
    """Hold all hosts against the plan; docs/preflight.md lists every code.

    Args:
        plan: what is to run.
        facts: by inventory name; a host without facts is passed over (it could not be reached, which is told already).
        listening: by inventory name, what the node operation ``ports`` found.

    Returns:
        Findings in the order of the plan's hosts, errors first on each; one per host and code.
    """
    found = [*_by_host(plan, facts, listening), *disk.check_models(plan, facts), *compare(plan, facts)]
    order = {host.host: index for index, host in enumerate(plan.hosts)}
    return sorted(found, key=lambda finding: (order[finding.host], finding.level != "error"))


def _by_host(
    plan: Plan, facts: Mapping[str, HostFacts], listening: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[Finding]:
    for host in plan.hosts:
        if host.host in facts:
            taken = tuple(listening.get(host.host, ()))
            subject = Subject(plan, host, tuple(plan.on_host(host.host)), facts[host.host], taken)
            for topic in _CHECKS:
                yield from topic(subject)
