"""Who runs what: the leader is among the hosts, no host serves twice, every address can be reached by the others."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from sgdeploy.problems import KeyPath, Problem
from sgdeploy.profile.suggest import did_you_mean
from sgdeploy.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sgdeploy.plan.layout import Wanted
    from sgdeploy.profile.inventory import Host

_SHOWN = 3
_ITSELF = frozenset({"127.0.0.1", "::1", "localhost"})
"""Addresses by which every host knows itself."""


def apart(wanted: Sequence[Wanted]) -> bool:
    """Tell whether no host serves two instances, other than on purpose."""
    return not list(_shared(wanted))


def check_hosts(wanted: Sequence[Wanted], router: Sequence[Host]) -> list[Problem]:
    """Check the hosts of all instances and the router's, alone and against each other."""
    parties = [_Party(instance.path, (*instance.path, "hosts"), instance.hosts) for instance in wanted]
    parties += [_Party(("router",), ("router", "host"), tuple(router))] if router else []
    several = len({host.name for party in parties for host in party.hosts}) > 1
    problems: list[Problem] = []
    for instance in wanted:
        problems += _leader(instance)
    for party in parties:
        problems += _addresses(party, several=several)
    return [*problems, *_shared(wanted), *_same_address(parties)]


@dataclass(frozen=True)
class _Party:
    """Hosts that a profile names at one place, for an instance or the router."""

    path: KeyPath
    at: KeyPath
    hosts: tuple[Host, ...]


def _leader(wanted: Wanted) -> Iterator[Problem]:
    leader, names = wanted.spec.leader, [host.name for host in wanted.hosts]
    if leader is None or leader in names:
        return
    near = did_you_mean(leader, names)
    hint = f"did you mean `{near}`?" if near else f"it has {_some(names)}"
    message = f"leader `{leader}` is not among the {plural(len(names), 'host')} of the instance"
    yield Problem(message, hint, (*wanted.path, "leader"), code="leader-unknown")


def _shared(wanted: Sequence[Wanted]) -> Iterator[Problem]:
    """Two instances on one host would fight for its cores, unless each has cores of its own."""
    owner: dict[str, list[Wanted]] = {}
    for instance in wanted:
        taken = [
            host.name
            for host in instance.hosts
            if any(not _own_cores(instance, other) for other in owner.get(host.name, ()))
        ]
        if taken:
            other = next(other for other in owner[taken[0]] if not _own_cores(instance, other))
            verb = "belongs" if len(taken) == 1 else "belong"
            message = f"{_some(taken)} {verb} to {_title(other)} already"
            hint = "give each instance its own hosts, or `cores` of its own on shared ones"
            yield Problem(message, hint, (*instance.path, "hosts"), code="host-shared")
        for host in instance.hosts:
            owner.setdefault(host.name, []).append(instance)


def _own_cores(one: Wanted, other: Wanted) -> bool:
    return bool(one.spec.cores) and bool(other.spec.cores)


def _title(wanted: Wanted) -> str:
    spot = wanted.spot
    return f"instance `{spot.role if spot.name is None else '/'.join(map(str, spot.path))}`"


def _same_address(parties: Sequence[_Party]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for party in parties:
        for host in party.hosts:
            other = first.setdefault(host.address, host.name)
            if other != host.name:
                message = f"hosts `{other}` and `{host.name}` have the same data address {host.address}"
                hint = "give each its own `address` in the inventory"
                yield Problem(message, hint, party.at, code="address-twice")


def _addresses(party: _Party, *, several: bool) -> Iterator[Problem]:
    hint = "give the hosts the address of the interface that carries the traffic, as `address`"
    unusable = [host for host in party.hosts if _is(host, "is_unspecified")]
    if unusable:
        message = f"{unusable[0].address} is no data address: others cannot connect to it ({_named(unusable)})"
        yield Problem(message, hint, party.at, code="address-unspecified")
    # Addresses of 127.0.0.0/8 are as good as any for hosts that are this machine.
    looped = [host for host in party.hosts if host.connection == "ssh" and _is(host, "is_loopback")]
    if looped and several:
        itself = [host for host in looped if host.address in _ITSELF]
        if itself:
            message = f"{itself[0].address} means each host itself: others cannot connect to it ({_named(itself)})"
            yield Problem(message, hint, party.at, code="address-loopback")
            return
        message = (
            f"{plural(len(looped), 'host')} reached over ssh {'has' if len(looped) == 1 else 'have'} a loopback data "
            f"address ({_named(looped)}): they meet the others only if all hosts are one machine"
        )
        yield Problem(message, hint, party.at, level="warning", code="address-loopback")


def _is(host: Host, what: str) -> bool:
    if host.address == "localhost":
        return what == "is_loopback"
    try:
        address: IPv4Address | IPv6Address = ip_address(host.address)
    except ValueError:
        return False
    return address.is_loopback if what == "is_loopback" else address.is_unspecified


def _named(hosts: Sequence[Host]) -> str:
    return _some(host.name if host.name == host.address else f"{host.name} {host.address}" for host in hosts)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
