"""Ports: who listens already on one that is planned, and which the kernel may give to anybody.

A fixed port inside the ephemeral range can be held by an outgoing connection at any moment (sglang issues 17402 and
37215), so that a start fails once in a while.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sgdeploy.facts.model import Finding
from sgdeploy.facts.raw import Raw, Wanted
from sgdeploy.facts.subject import Subject
from sgdeploy.facts.text import read_numbers
from sgdeploy.plan.endpoint import endpoint
from sgdeploy.plan.model import Process
from sgdeploy.words import number_list

RANGE = "/proc/sys/net/ipv4/ip_local_port_range"
RESERVED = "/proc/sys/net/ipv4/ip_local_reserved_ports"


def wanted() -> Wanted:
    """Ask for the ephemeral range and its exceptions; the range holds for IPv6 too."""
    return Wanted(files=(RANGE, RESERVED))


def listening(processes: tuple[Process, ...]) -> list[dict[str, Any]]:
    """Give ``{address, port}`` of everything that the processes will listen on."""
    pairs = ((p.address, port) for p in processes for port in p.listens.values() if port is not None)
    return [{"address": address, "port": port} for address, port in dict.fromkeys(pairs)]


def ephemeral(raw: Raw) -> tuple[int, int] | None:
    """Read the first and the last port of the ephemeral range."""
    fields = raw.file(RANGE).split()
    return (int(fields[0]), int(fields[1])) if fields else None


def reserved(raw: Raw) -> tuple[int, ...]:
    """Read the ports that are left out of the range."""
    return read_numbers(raw.file(RESERVED))


def check(subject: Subject) -> Iterator[Finding]:
    """Hold the plan's ports against who listens and against the ephemeral range."""
    taken = [_taken(row) for row in subject.taken]
    if taken:
        yield subject.error(
            "port-taken",
            "; ".join(dict.fromkeys(taken)),
            "end that process (`ss -ltnp` lists them), or plan other ports",
        )
    bounds = subject.facts.ephemeral
    if bounds is None:
        return
    planned = {row["port"] for row in listening(subject.processes)} - set(subject.facts.reserved)
    inside = [port for port in planned if bounds[0] <= port <= bounds[1]]
    if inside:
        ports = number_list(inside)
        yield subject.warning(
            "port-ephemeral",
            f"planned ports in this host's ephemeral range {bounds[0]}-{bounds[1]}: {ports} "
            "(an outgoing connection may hold one at the start)",
            f"plan ports outside it, or reserve them: sysctl -w net.ipv4.ip_local_reserved_ports={ports}",
        )


def _taken(row: Mapping[str, Any]) -> str:
    where = endpoint(str(row["address"]), row["port"])
    if row.get("pid") is None:
        return f"{where} is taken by a process that only root can name"
    return f"{where} is taken by pid {row['pid']} ({row.get('command') or 'no command line'})"
