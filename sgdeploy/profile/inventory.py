"""Hosts and groups: who there is, how to connect, and which data address each has."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sgdeploy.problems import KeyPath


@dataclass(frozen=True)
class Host:
    """One host.

    Attributes:
        name: inventory name, unique; group and host names share no name.
        ssh: name or address to connect to; may be an alias of ``~/.ssh/config``.
        address: data address that appears in flags; the name itself unless given.
        connection: ``ssh`` or ``local`` (this machine, no sshd).
        user: ssh user or None for what the ssh configuration says.
        port: ssh port or None for what the ssh configuration says.
        nic: network interface that carries ``address``, or None for the platform's default.
        ib_devices: RDMA devices in order, or None for the platform's default.
        sudo: whether the user becomes root there, by ``sudo -n``.
    """

    name: str
    ssh: str
    address: str
    connection: Literal["ssh", "local"] = "ssh"
    user: str | None = None
    port: int | None = None
    nic: str | None = None
    ib_devices: tuple[str, ...] | None = None
    sudo: bool = False


@dataclass(frozen=True)
class HostDefaults:
    """What a host has unless its own entry says otherwise; see ``Host`` for the fields."""

    connection: Literal["ssh", "local"] = "ssh"
    user: str | None = None
    port: int | None = None
    nic: str | None = None
    ib_devices: tuple[str, ...] | None = None
    sudo: bool = False

    def host(self, name: str) -> Host:
        """Make a host that is known by its name or address alone."""
        return Host(name, name, name, self.connection, self.user, self.port, self.nic, self.ib_devices, self.sudo)


@dataclass(frozen=True)
class Inventory:
    """All known hosts, groups, and how host keys are treated.

    Attributes:
        hosts: by inventory name, in file order.
        groups: group name → host names in order.
        known_hosts: ``strict`` or ``off``.
        defaults: of hosts that a profile names without an entry here.
        keys: host name → detail (a field of ``Host``; ``name`` for the host itself) → where it stands, from the top of
            the inventory; what is not there comes from the defaults, or follows from the name.
    """

    hosts: dict[str, Host] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    known_hosts: Literal["strict", "off"] = "strict"
    defaults: HostDefaults = HostDefaults()
    keys: Mapping[str, Mapping[str, KeyPath]] = field(default_factory=dict, compare=False)

    def where(self, host: str, detail: str) -> tuple[KeyPath, ...]:
        """Name the places that decide about a detail of a host, from the top of the inventory, the first one wins."""
        own = self.keys.get(host, {})
        common: KeyPath = ("ssh" if detail in {"user", "port", "sudo"} else "defaults", detail)
        return tuple(path for path in (own.get(detail), common, own.get("name")) if path is not None)

    @property
    def names_hosts(self) -> bool:
        """Whether it lists any host; only then is a bare name outside it a mistake."""
        return bool(self.hosts or self.groups)

    def find(self, name: str) -> Host | None:
        """Give the host with this inventory name, or else the first with this data address."""
        return self.hosts.get(name) or self._by_address.get(name)

    @cached_property
    def _by_address(self) -> dict[str, Host]:
        return {host.address: host for host in reversed(self.hosts.values())}
