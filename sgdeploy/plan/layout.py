"""From a profile's instances to laid-out ones: rank order, sizes, ports, merged flags and environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.plan.environment import Environment, environment
from sgdeploy.plan.flags import Layer, merge_flags
from sgdeploy.platforms.base import HTTP_PORT, Shape
from sgdeploy.profile.schema import Instance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sgdeploy.engine.catalogue import Catalogue
    from sgdeploy.plan.model import Role
    from sgdeploy.platforms.base import Platform
    from sgdeploy.problems import KeyPath
    from sgdeploy.profile.inventory import Host
    from sgdeploy.profile.schema import FlagValue, Profile


@dataclass(frozen=True)
class Ports:
    """The ports of one instance.

    Attributes:
        http: HTTP port of rank 0 of a node; rank r of a node has ``http + r``.
        bootstrap: port of the KV bootstrap server that is passed on, or None.
        rendezvous: where the ranks meet, on the leader.
        derived: how many ports right above the rendezvous port the engine takes for itself.
    """

    http: int
    bootstrap: int | None
    rendezvous: int
    derived: int


@dataclass(frozen=True)
class Layout:
    """One instance with everything derived, before its processes are written out.

    Attributes:
        role: native, prefill or decode.
        name: its name in the profile, None for a single unnamed one.
        path: where it stands in the profile.
        spec: what the profile says.
        hosts: in the order of node ranks, the leader first.
        shape: its sizes.
        ports: its ports.
        flags: merged over all layers, canonical names.
        layers: the profile's flag layers of this instance, lowest first.
        env: its environment.
    """

    role: Role
    name: str | None
    path: KeyPath
    spec: Instance
    hosts: tuple[Host, ...]
    shape: Shape
    ports: Ports
    flags: Mapping[str, FlagValue]
    layers: tuple[Layer, ...]
    env: Environment

    @property
    def unit(self) -> str:
        """Its selector: ``native`` or ``native/a``."""
        return self.role if self.name is None else f"{self.role}/{self.name}"

    def flag_path(self, name: str) -> KeyPath:
        """Where the profile set a flag, the highest layer first; the instance itself where it did not."""
        for layer in reversed(self.layers):
            if name in layer.keys:
                return layer.keys[name]
        return self.path


@dataclass(frozen=True)
class Wanted:
    """An instance of the profile and the hosts it selects, in the order written."""

    name: str | None
    path: KeyPath
    spec: Instance
    hosts: tuple[Host, ...]


def instances(profile: Profile) -> dict[KeyPath, tuple[str | None, Instance]]:
    """Give a profile's instances by where they stand."""
    native = profile.native
    if isinstance(native, Instance):
        return {("native",): (None, native)}
    return {("native", name): (name, instance) for name, instance in native.items()}


@dataclass(frozen=True)
class Context:
    """What all instances of a profile share."""

    profile: Profile
    platform: Platform
    catalogue: Catalogue
    layers: Mapping[KeyPath, Layer]


def lay_out(context: Context, wanted: Wanted, index: int) -> Layout:
    """Derive everything about the ``index``-th instance of its role."""
    engine, platform, spec = context.profile.engine, context.platform, wanted.spec
    hosts = leader_first(wanted.hosts, spec.leader)
    sizes = spec.parallel
    role: Role = "native"
    rendezvous = spec.rendezvous.port or platform.rendezvous_port(role, index)
    shape = Shape(
        role=role,
        index=index,
        nodes=len(hosts),
        tp=sizes.tp,
        pp=sizes.pp,
        dp=sizes.dp or platform.default_dp(len(hosts), sizes.pp),
        ep=sizes.ep or platform.default_ep(sizes.tp),
        by_rank=engine.launch == "rank",
        numa_copies=engine.numa_copies,
        leader_address=hosts[0].address,
        rendezvous_port=rendezvous,
    )
    paths: tuple[KeyPath, ...] = (("engine", "flags"), (*wanted.path, "flags"))
    layers = tuple(context.layers[path] for path in paths if path in context.layers)
    flags = merge_flags(platform.flags(shape), *(layer.values for layer in layers))
    derived = platform.derived_ports(shape, dp_attention=flags.get("enable-dp-attention") is True)
    bootstrap = spec.bootstrap_port or platform.bootstrap_port
    return Layout(
        role=role,
        name=wanted.name,
        path=wanted.path,
        spec=spec,
        hosts=hosts,
        shape=shape,
        ports=Ports(spec.port or HTTP_PORT, bootstrap, rendezvous, derived),
        flags=flags,
        layers=layers,
        env=environment(platform, shape, engine.env, spec.env),
    )


def leader_first(hosts: tuple[Host, ...], leader: str | None) -> tuple[Host, ...]:
    """Move the leader to node rank 0; a leader that is not among the hosts changes nothing (a check names it)."""
    first = tuple(host for host in hosts if host.name == leader)
    return (*first, *(host for host in hosts if host.name != leader))
