"""What an operator may write in an inventory: a file of its own, or the ``inventory`` of a profile."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, Tag

from sgdeploy.profile.parts import Hosts, Section, by_shape
from sgdeploy.profile.scalars import Name, Port, version_one

Text = Annotated[str, Field(min_length=1)]
Connection = Literal["ssh", "local"]


class SshSettings(Section):
    """How hosts are reached. ``~/.ssh/config`` is honoured for everything that is not set here."""

    user: Text | None = Field(default=None, description="Default: what the SSH configuration says.")
    port: Port | None = Field(default=None, description="Default: what the SSH configuration says.")
    sudo: bool = Field(default=False, description="Whether that user becomes root on the hosts, by `sudo -n`.")
    known_hosts: Literal["strict", "off"] = Field(
        default="strict", description="Whether host keys are checked; off is for throw-away machines."
    )


class Defaults(Section):
    """What holds for every host that does not say otherwise."""

    connection: Connection = Field(default="ssh", description="local: the host is this machine, without sshd.")
    nic: Text | None = Field(
        default=None, description="Network interface of the data address; default: the platform's."
    )
    ib_devices: list[Text] | None = Field(default=None, description="RDMA devices in order; default: the platform's.")


class HostEntry(Section):
    """One host in detail; or a range of hosts that share details (then without ``ssh`` and ``address``)."""

    host: Annotated[str, Field(min_length=1, description="Name of the host in profiles; a range names several.")]
    ssh: Text | None = Field(default=None, description="Name or address to connect to; default: the host's name.")
    address: Text | None = Field(default=None, description="Data address, as in flags; default: the host's name.")
    user: Text | None = Field(default=None, description="SSH user; default: ssh.user of the inventory.")
    port: Port | None = Field(default=None, description="SSH port; default: ssh.port of the inventory.")
    sudo: bool | None = Field(default=None, description="Root by `sudo -n`; default: ssh.sudo of the inventory.")
    connection: Connection | None = Field(default=None, description="Default: defaults.connection.")
    nic: Text | None = Field(default=None, description="Default: defaults.nic.")
    ib_devices: list[Text] | None = Field(default=None, description="Default: defaults.ib_devices.")


Entry = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[HostEntry, Tag("<mapping>")],
    by_shape("must be a host, a range, or a mapping with the key `host`"),
]
GroupSpec = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[Entry], Tag("<list>")] | Annotated[Hosts, Tag("<mapping>")],
    by_shape("must be a range, a list of hosts, or {file: PATH}"),
]


class InventorySection(Section):
    """Hosts and groups, and how to reach them."""

    version: Annotated[Literal[1], version_one("inventory")] = Field(default=1, description="Of this format: 1.")
    ssh: SshSettings = SshSettings()
    defaults: Defaults = Defaults()
    groups: dict[Name, GroupSpec] = Field(default_factory=dict, description="Hosts by group name.")
    hosts: list[Entry] = Field(default_factory=list, description="Hosts outside groups, and details of hosts in them.")


class InventoryFile(InventorySection):
    """The same as a file of its own, which says its version."""

    reader_keys: ClassVar[frozenset[str]] = frozenset({"$schema"})
    version: Annotated[Literal[1], version_one("inventory"), Field(description="Of this format: 1.")]
