"""Who runs what: the leader is among the hosts, no host serves twice, every address can be reached by the others."""

from __future__ import annotations

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


def disjoint(wanted: Sequence[Wanted]) -> bool:
    """Tell whether no host serves two instances."""
    names = [host.name for instance in wanted for host in instance.hosts]
    return len(names) == len(set(names))


def check_hosts(wanted: Sequence[Wanted]) -> list[Problem]:
    """Check the hosts of all instances, alone and against each other."""
    problems: list[Problem] = []
    for instance in wanted:
        problems += [*_leader(instance), *_addresses(instance)]
    return [*problems, *_shared(wanted), *_same_address(wanted)]


def _leader(wanted: Wanted) -> Iterator[Problem]:
    leader, names = wanted.spec.leader, [host.name for host in wanted.hosts]
    if leader is None or leader in names:
        return
    near = did_you_mean(leader, names)
    hint = f"did you mean `{near}`?" if near else f"it has {_some(names)}"
    message = f"leader `{leader}` is not among the {plural(len(names), 'host')} of the instance"
    yield Problem(message, hint, (*wanted.path, "leader"), code="leader-unknown")


def _shared(wanted: Sequence[Wanted]) -> Iterator[Problem]:
    """Two instances on one host would fight for its cores, pages and ports."""
    owner: dict[str, Wanted] = {}
    for instance in wanted:
        taken = [host.name for host in instance.hosts if host.name in owner]
        for host in instance.hosts:
            owner.setdefault(host.name, instance)
        if taken:
            other = owner[taken[0]].name
            verb = "belongs" if len(taken) == 1 else "belong"
            message = f"{_some(taken)} {verb} to instance `{other}` already"
            yield Problem(message, "give each instance its own hosts", _at(instance), code="host-shared")


def _same_address(wanted: Sequence[Wanted]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for instance in wanted:
        for host in instance.hosts:
            other = first.setdefault(host.address, host.name)
            if other != host.name:
                message = f"hosts `{other}` and `{host.name}` have the same data address {host.address}"
                hint = "give each its own `address` in the inventory"
                yield Problem(message, hint, _at(instance), code="address-twice")


def _addresses(wanted: Wanted) -> Iterator[Problem]:
    unusable = [host for host in wanted.hosts if _is(host, "is_unspecified")]
    if unusable:
        message = f"{unusable[0].address} is no data address: ranks cannot connect to it ({_named(unusable)})"
        hint = "give the hosts the address of the interface that carries the traffic, as `address`"
        yield Problem(message, hint, _at(wanted), code="address-unspecified")
    # Addresses of 127.0.0.0/8 are as good as any for hosts that are this machine.
    looped = [host for host in wanted.hosts if host.connection == "ssh" and _is(host, "is_loopback")]
    if looped and len(wanted.hosts) > 1:
        message = (
            f"{plural(len(looped), 'host')} reached over ssh {'has' if len(looped) == 1 else 'have'} a loopback data "
            f"address ({_named(looped)}): the ranks meet only if all hosts are one machine"
        )
        hint = "give the hosts the address of the interface that carries the traffic, as `address`"
        yield Problem(message, hint, _at(wanted), level="warning", code="address-loopback")


def _is(host: Host, what: str) -> bool:
    if host.address == "localhost":
        return what == "is_loopback"
    try:
        address: IPv4Address | IPv6Address = ip_address(host.address)
    except ValueError:
        return False
    return address.is_loopback if what == "is_loopback" else address.is_unspecified


def _at(wanted: Wanted) -> KeyPath:
    return (*wanted.path, "hosts")


def _named(hosts: Sequence[Host]) -> str:
    return _some(host.name if host.name == host.address else f"{host.name} {host.address}" for host in hosts)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
