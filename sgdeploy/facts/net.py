"""Addresses and network interfaces, names, proxies.

Gloo takes the interface from ``GLOO_SOCKET_IFNAME`` and fails with "Unable to find address for" when it is not there
(sglang issues 3226, 836, 868, 3514); a host name that resolves to loopback is the other classic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

from sgdeploy.facts.model import Finding
from sgdeploy.facts.raw import Raw, Wanted
from sgdeploy.facts.subject import Subject, target_host
from sgdeploy.plan.model import PlanHost, Process

DEVICES = "/proc/net/dev"
ROUTES = "/proc/net/route"
TRIE = "/proc/net/fib_trie"
INET6 = "/proc/net/if_inet6"

GLOO = "GLOO_SOCKET_IFNAME"

NOT_FOUND = 2
"""Exit code of ``getent`` for a name that nobody knows; any other failure says nothing about the name."""

_IP = ("sh", "-c", 'PATH="$PATH:/usr/sbin:/sbin"; exec ip -o addr')
"""``ip`` often lies outside the PATH of a session that is not root's."""


def wanted(host: PlanHost, processes: tuple[Process, ...]) -> Wanted:
    """Ask for addresses (twice: not every host has ``ip``), and what the plan's names resolve to."""
    return Wanted(
        files=(DEVICES, ROUTES, TRIE, INET6),
        commands={"ip": _IP, **{f"resolve:{name}": ("getent", "ahosts", name) for name in names(host, processes)}},
    )


def names(host: PlanHost, processes: tuple[Process, ...]) -> tuple[str, ...]:
    """Give every host name (not address) that the host must know: its own, and those it connects to."""
    peers = (target_host(target) for process in processes for target in process.connects.values())
    return tuple(dict.fromkeys(name for name in (host.address, *peers) if name and not _is_address(name)))


def _is_address(text: str) -> bool:
    with suppress(ValueError):
        _plain(text)
        return True
    return False


def resolved(raw: Raw, prefix: str = "resolve:") -> dict[str, tuple[str, ...]]:
    """Read what each name resolves to; a name that does not has no addresses."""
    commands = raw.result.get("commands") or {}
    return {
        name.removeprefix(prefix): tuple(
            dict.fromkeys(line.split()[0] for line in (raw.output(name) or "").splitlines() if line.strip())
        )
        for name in commands
        if name.startswith(prefix) and (raw.output(name) is not None or commands[name].get("rc") == NOT_FOUND)
    }


def interfaces(raw: Raw) -> dict[str, tuple[str, ...]]:
    """Read interface → addresses, from ``ip`` or else from /proc; interfaces without an address are listed too."""
    found: dict[str, list[str]] = {name: [] for name in _devices(raw)}
    listed = raw.output("ip")
    pairs = _from_ip(listed) if listed is not None else _from_proc(raw)
    for name, address in pairs:
        found.setdefault(name, []).append(address)
    return {name: tuple(addresses) for name, addresses in found.items()}


def _devices(raw: Raw) -> list[str]:
    return re.findall(r"^\s*([^\s:|]+):", raw.file(DEVICES), re.MULTILINE)


def _from_ip(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        match = re.match(r"\d+:\s+(\S+)\s+inet6?\s+([^\s/]+)", line)
        if match:
            yield match[1].partition("@")[0].rstrip(":"), match[2]


def _from_proc(raw: Raw) -> Iterator[tuple[str, str]]:
    """Read IPv4 from the kernel's table of local addresses, its interface from the routes; IPv6 has its own file."""
    routes = list(_routes(raw))
    local = re.findall(r"\|-- (\d+\.\d+\.\d+\.\d+)\s*\n\s*/32 host LOCAL", raw.file(TRIE))
    for text in dict.fromkeys(local):
        address = IPv4Address(text)
        owners = [(net.prefixlen, name) for name, net in routes if address in net]
        yield ("lo" if address.is_loopback else max(owners)[1] if owners else ""), text
    for line in raw.file(INET6).splitlines():
        fields = line.split()
        if len(fields) == len(("address", "index", "prefix", "scope", "flags", "name")):
            yield fields[5], str(IPv6Address(int(fields[0], 16)))


def _routes(raw: Raw) -> Iterator[tuple[str, IPv4Network]]:
    """Read routes to networks that an interface is attached to; numbers are hexadecimal, lowest byte first."""
    for line in raw.file(ROUTES).splitlines()[1:]:
        fields = line.split()
        if len(fields) > len(("iface", "destination", "gateway")) and fields[2] == "00000000":
            address, mask = (IPv4Address(bytes.fromhex(fields[at])[::-1]) for at in (1, 7))
            with suppress(ValueError):
                yield fields[0], IPv4Network(f"{address}/{mask}")


def check(subject: Subject) -> Iterator[Finding]:
    """Hold the plan's address, names and interface against the host's."""
    yield from _names(subject)
    yield from _address(subject)
    yield from _family(subject)
    yield from _gloo(subject)


def own_addresses(subject: Subject) -> tuple[str, ...]:
    """Give the planned address, or what the host resolves it to."""
    address = subject.host.address
    return (address,) if _is_address(address) else subject.facts.resolved.get(address, ())


def _names(subject: Subject) -> Iterator[Finding]:
    known = subject.facts.resolved
    unknown = [name for name in names(subject.host, subject.processes) if known.get(name) == ()]
    if unknown:
        yield subject.error(
            "name-unknown",
            f"{', '.join(unknown)} cannot be resolved here",
            "give `address:` in the inventory, or add the names to /etc/hosts or the DNS",
        )
    own = known.get(subject.host.address, ())
    if own and len(subject.plan.hosts) > 1 and all(_plain(a).is_loopback for a in own):
        yield subject.warning(
            "name-loopback",
            f"{subject.host.address} resolves to {', '.join(own)} here: other hosts cannot reach that",
            "give `address:` in the inventory, or take the name out of the 127.x line of /etc/hosts",
        )


def _address(subject: Subject) -> Iterator[Finding]:
    facts, own = subject.facts, own_addresses(subject)
    if not own or not any(facts.interfaces.values()) or any(facts.interface_of(a) is not None for a in own):
        return
    yield subject.error(
        "address-missing",
        f"{', '.join(own)} is not an address of this host; it has {_have(subject)}",
        "correct `address:` in the inventory, or check that `ssh:` leads to the host that is meant",
    )


def _family(subject: Subject) -> Iterator[Finding]:
    """A host reaches only addresses of a family of which it has one itself: with a mix, all need the leader's."""
    known = subject.facts.resolved
    own = {_plain(address).version for _, address in _routable(subject)}
    targets = dict.fromkeys(target for process in subject.processes for target in process.connects.values())
    beyond: list[str] = []
    for target in targets:
        peer = target_host(target)
        addresses = (peer,) if _is_address(peer) else known.get(peer, ())
        families = {address.version for a in addresses if not (address := _plain(a)).is_loopback}
        beyond += [target] if families and not families & own else []
    if own and beyond:
        yield subject.error(
            "family-missing",
            f"{', '.join(beyond)} cannot be reached from here: this host has no IPv{({4, 6} - own).pop()} address; "
            f"it has {_have(subject)}",
            "give all hosts `address:` of one family in the inventory, or this host an address of both",
        )


def _plain(address: str) -> IPv4Address | IPv6Address:
    return ip_address(address.partition("%")[0])


def _routable(subject: Subject) -> list[tuple[str, str]]:
    """Give interface and address of all that other hosts could reach."""
    return [
        (name, address)
        for name, addresses in subject.facts.interfaces.items()
        for address in addresses
        if not (_plain(address).is_loopback or _plain(address).is_link_local)
    ]


def _have(subject: Subject) -> str:
    found = [f"{address} ({name or 'unknown interface'})" for name, address in _routable(subject)]
    return ", ".join(found) or "none but loopback"


def _gloo(subject: Subject) -> Iterator[Finding]:
    facts = subject.facts
    carriers = [name for a in own_addresses(subject) if (name := facts.interface_of(a)) is not None]
    values = (process.env.get(GLOO) for process in subject.processes)
    asked = tuple(dict.fromkeys(n for v in values if isinstance(v, str) for n in v.split(",") if n))
    if not facts.interfaces or not carriers or not asked:
        return
    missing = [name for name in asked if name not in facts.interfaces]
    hint = f"set `nic: {carriers[0]}` for this host in the inventory"
    if missing:
        have = ", ".join(name for name in facts.interfaces if name)
        make = subject.error if subject.real else subject.warning
        message = f"{GLOO} names {', '.join(missing)}, which this host does not have; it has {have}"
        yield make("nic-missing", message, hint)
    elif not set(asked) & set(carriers) and "" not in carriers:
        message = f"{GLOO} names {', '.join(asked)}, but {subject.host.address} is an address of {carriers[0]}"
        yield subject.warning("nic-address", message, hint)
