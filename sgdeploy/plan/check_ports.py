"""Every port that a deployment listens on, given or derived: in range, apart from the others, not taken by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.problems import KeyPath, Problem
from sgdeploy.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sgdeploy.plan.layout import Layout

LAST_PORT = 65535
EPHEMERAL = (32768, 60999)
"""Linux's default range for outgoing connections: a port in it may be taken by chance just before the start."""


@dataclass(frozen=True)
class Claim:
    """A run of ports that an instance listens on, on some of its hosts.

    Attributes:
        what: in words, as it begins a sentence's object: ``the HTTP ports of native``.
        first: first port.
        last: last port.
        hosts: names of the hosts.
        path: where a profile would change it.
    """

    what: str
    first: int
    last: int
    hosts: frozenset[str]
    path: KeyPath

    @property
    def ports(self) -> str:
        """The run as text: ``30000`` or ``30000-30015``."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def claims(layout: Layout) -> list[Claim]:
    """List what an instance listens on.

    The bootstrap port is not among them: without a prefill and decode split nobody opens it.
    """
    ports, everywhere = layout.ports, frozenset(host.name for host in layout.hosts)
    leader = frozenset({layout.hosts[0].name})
    last = ports.http + (layout.shape.ranks_per_node - 1 if layout.shape.by_rank else 0)
    what = f"the HTTP port{'s' if last > ports.http else ''} of {layout.unit}"
    met = f"the rendezvous port of {layout.unit}" + (" and those the engine derives from it" if ports.derived else "")
    return [
        Claim(what, ports.http, last, everywhere, (*layout.path, "port")),
        Claim(met, ports.rendezvous, ports.rendezvous + ports.derived, leader, (*layout.path, "rendezvous", "port")),
    ]


def check_ports(layouts: Sequence[Layout]) -> list[Problem]:
    """Check the ports of all instances, alone and against each other."""
    return check_claims([claim for layout in layouts for claim in claims(layout)])


def check_claims(every: Sequence[Claim]) -> list[Problem]:
    """Check runs of ports for their range, for overlaps on a host, and for ports that may be taken by chance."""
    return [*_out_of_range(every), *_clashes(every), *_ephemeral(every)]


def _out_of_range(every: Sequence[Claim]) -> Iterator[Problem]:
    for claim in every:
        if claim.last > LAST_PORT:
            message = f"{claim.what} would be {claim.ports}, above {LAST_PORT}"
            hint = f"at most {LAST_PORT - (claim.last - claim.first)} leaves room for all"
            yield Problem(message, hint, claim.path, code="port-range")


def _clashes(every: Sequence[Claim]) -> Iterator[Problem]:
    for index, one in enumerate(every):
        for other in every[:index]:
            shared = sorted(one.hosts & other.hosts)
            if shared and one.first <= other.last and other.first <= one.last:
                where = shared[0] if len(shared) == 1 else f"{shared[0]} and {plural(len(shared) - 1, 'more host')}"
                message = f"{one.what} ({one.ports}) and {other.what} ({other.ports}) overlap on {where}"
                hint = f"move one of them: {other.last + 1} is the next port after {other.what}"
                yield Problem(message, hint, one.path, code="port-clash")


def _ephemeral(every: Sequence[Claim]) -> Iterator[Problem]:
    low, high = EPHEMERAL
    for claim in every:
        if claim.first <= high and claim.last >= low and claim.last <= LAST_PORT:
            message = (
                f"{claim.what} ({claim.ports}) may be taken by chance: Linux uses {low}-{high} for outgoing connections"
            )
            hint = f"choose one below {low}, or reserve it on the hosts with net.ipv4.ip_local_reserved_ports"
            yield Problem(message, hint, claim.path, level="warning", code="port-ephemeral")
