"""Every port that a deployment listens on, given or derived: in range, apart from the others, not taken by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.plan.layout import flag_path
from sgdeploy.problems import KeyPath, Problem
from sgdeploy.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sgdeploy.plan.layout import Layout
    from sgdeploy.plan.routing import Routing

LAST_PORT = 65535
EPHEMERAL = (32768, 60999)
"""Linux's default range for outgoing connections: a port in it may be taken by chance just before the start."""


@dataclass(frozen=True)
class Claim:
    """A run of ports that an instance or the router listens on, on some hosts.

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


def claims(layout: Layout, *, serves: bool = True) -> list[Claim]:
    """List what an instance listens on.

    Args:
        layout: the instance.
        serves: whether its leader serves HTTP, and with it the bootstrap port of a prefill; else a server beside the
            router does. Without a prefill and decode split nobody opens the bootstrap port.
    """
    ports, everywhere = layout.ports, frozenset(host.name for host in layout.hosts)
    leader = frozenset({layout.lead.name})
    last = ports.http + (layout.shape.ranks_per_node - 1 if layout.shape.by_rank else 0)
    what = f"the HTTP port{'s' if last > ports.http else ''} of {layout.unit}"
    met = f"the rendezvous port of {layout.unit}" + (" and those the engine derives from it" if ports.derived else "")
    found = [
        Claim(what, ports.http, last, everywhere, (*layout.path, "port")),
        Claim(met, ports.rendezvous, ports.rendezvous + ports.derived, leader, (*layout.path, "rendezvous", "port")),
    ]
    if serves and layout.role == "prefill":
        found += _bootstrap(layout, leader)
    return found


def front_claims(routing: Routing) -> list[Claim]:
    """List what the router and the servers beside it listen on."""
    here = frozenset({routing.host.name})
    found: list[Claim] = []
    for server in routing.tokenizers:
        what = f"the HTTP port of {server.unit}"
        found.append(Claim(what, server.port, server.port, here, ("router", "tokenizers", "port")))
        found += _bootstrap(server.layout, here)
    metrics = flag_path(routing.layers, "prometheus-port") or ("router", "flags")
    return [
        *found,
        Claim("the HTTP port of the router", routing.port, routing.port, here, ("router", "port")),
        Claim("the metrics port of the router", routing.metrics, routing.metrics, here, metrics),
    ]


def _bootstrap(layout: Layout, hosts: frozenset[str]) -> list[Claim]:
    port = layout.ports.bootstrap
    what = f"the bootstrap port of {layout.unit}"
    return [] if port is None else [Claim(what, port, port, hosts, (*layout.path, "bootstrap_port"))]


def check_ports(layouts: Sequence[Layout], routing: Routing | None) -> list[Problem]:
    """Check the ports of all instances and of the router, alone and against each other."""
    inside = routing is None or not routing.tokenizers
    every = [claim for layout in layouts for claim in claims(layout, serves=inside)]
    every += [] if routing is None else front_claims(routing)
    return [*check_claims(every), *(() if routing is None else _one_rendezvous(layouts))]


def _one_rendezvous(layouts: Sequence[Layout]) -> Iterator[Problem]:
    """Instances that work together meet at different ports, even on different hosts.

    Two engines with one MASTER_PORT on a host shared memory and hung (sgl-project/sglang#37179), and the servers of
    separate tokenizers all join from the router's host.
    """
    first: dict[int, Layout] = {}
    for layout in layouts:
        port = layout.ports.rendezvous
        other = first.setdefault(port, layout)
        shared = other is not layout and not {one.name for one in other.hosts} & {one.name for one in layout.hosts}
        if shared:
            message = f"{other.unit} and {layout.unit} both meet at port {port}"
            hint = f"give {layout.unit} a `rendezvous.port` of its own"
            yield Problem(message, hint, (*layout.path, "rendezvous", "port"), code="rendezvous-shared")


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
