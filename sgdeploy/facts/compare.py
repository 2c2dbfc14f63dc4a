"""Hosts held against each other: clocks, versions, and hosts that are one machine under two names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address
from statistics import median_low

from sgdeploy.facts.model import Finding, HostFacts
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.words import plural

CLOCK_TOLERANCE = 5.0
"""Seconds; beyond it the logs of two hosts cannot be laid side by side any more."""


def compare(plan: Plan, facts: Mapping[str, HostFacts]) -> Iterator[Finding]:
    """Compare all hosts; everything found here is a warning."""
    known = {host.host: facts[host.host] for host in plan.hosts if host.host in facts}
    yield from _clocks(known)
    yield from _differ(known, "python-differs", "python3", lambda it: ".".join(map(str, it.python[:2])))
    yield from _differ(known, "kernel-differs", "kernel", lambda it: it.kernel)
    yield from _differ(known, "arch-differs", "architecture", lambda it: it.arch)
    apart = {host.host: known[host.host] for host in plan.hosts if host.host in known and not _on_purpose(host)}
    yield from _same_machine(apart)
    yield from _same_name(apart)


def _on_purpose(host: PlanHost) -> bool:
    """Tell whether a host shares its machine with others by intention."""
    with suppress(ValueError):
        return host.connection == "local" or ip_address(host.address).is_loopback
    return host.connection == "local"


def _clocks(known: Mapping[str, HostFacts]) -> Iterator[Finding]:
    offsets = {name: it.clock_offset for name, it in known.items() if it.clock_offset is not None}
    if not offsets:
        return
    middle = median_low([0.0, *offsets.values()])
    for name, offset in offsets.items():
        if abs(offset - middle) > CLOCK_TOLERANCE:
            ahead = "ahead of" if offset > middle else "behind"
            message = (
                f"the clock is {abs(offset - middle):.0f} s {ahead} the others (tolerated: {CLOCK_TOLERANCE:.0f} s)"
            )
            yield Finding("clock-offset", "warning", name, message, "synchronise it: chronyc makestep, or ntpdate")


def _differ(
    known: Mapping[str, HostFacts], code: str, what: str, value: Callable[[HostFacts], str]
) -> Iterator[Finding]:
    values = {name: found for name, it in known.items() if (found := value(it))}
    counts = Counter(values.values())
    if len(counts) < len(("one", "other")):
        return
    usual, often = counts.most_common(1)[0]
    for name, found in values.items():
        if found != usual:
            message = f"{what} is {found}; {often} of {plural(len(values), 'host')} have {usual}"
            hint = "nothing must be done; where ranks behave differently, look here first"
            yield Finding(code, "warning", name, message, hint)


def _same_machine(apart: Mapping[str, HostFacts]) -> Iterator[Finding]:
    for names in _groups(apart, lambda it: it.boot_id):
        boxes = len({apart[name].hostname for name in names}) > 1
        how = "share one machine (containers or namespaces)" if boxes else "are one machine"
        yield Finding(
            "same-machine",
            "warning",
            names[0],
            f"the hosts {', '.join(names)} {how}: same boot id {apart[names[0]].boot_id}",
            "cores, memory and hugepages exist once only: check the inventory if these should be different machines",
        )


def _same_name(apart: Mapping[str, HostFacts]) -> Iterator[Finding]:
    for names in _groups(apart, lambda it: it.hostname):
        if len({apart[name].boot_id for name in names}) > 1:
            yield Finding(
                "same-hostname",
                "warning",
                names[0],
                f"the hosts {', '.join(names)} all call themselves {apart[names[0]].hostname}",
                "give each its own name: hostnamectl set-hostname; gloo may look up its own name to find its address",
            )


def _groups(apart: Mapping[str, HostFacts], key: Callable[[HostFacts], str]) -> Iterator[list[str]]:
    """Yield the names of hosts that share a key that is not empty."""
    groups: dict[str, list[str]] = {}
    for name, it in apart.items():
        groups.setdefault(key(it), []).append(name)
    yield from (names for value, names in groups.items() if value and len(names) > 1)
