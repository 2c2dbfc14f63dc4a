"""From a profile's instances to laid-out ones: rank order, sizes, ports, merged flags and environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.plan.endpoint import endpoint
from sgdeploy.plan.environment import Environment, environment
from sgdeploy.plan.flags import Layer, merge_flags
from sgdeploy.platforms.base import HTTP_PORT, Launch, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sgdeploy.engine.catalogue import Catalogue
    from sgdeploy.platforms.base import Platform
    from sgdeploy.problems import KeyPath
    from sgdeploy.profile.inventory import Host
    from sgdeploy.profile.router_schema import Router
    from sgdeploy.profile.schema import EnvSetting, FlagValue, Instance
    from sgdeploy.profile.topologies import EngineRole, Profile, Spot

STAGE = "{stage}"
"""What stands for the number of the pipeline stage in a model path."""

SHARED_STEP = 100
"""How far the default HTTP ports of two instances on one host are apart."""


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
        layers: where its flags come from, the platform's layer first.
        env: its environment.
        model: folder of its weights; ``{stage}`` in it is yet to be filled in.
    """

    role: EngineRole
    name: str | None
    path: KeyPath
    spec: Instance
    hosts: tuple[Host, ...]
    shape: Shape
    ports: Ports
    flags: Mapping[str, FlagValue]
    layers: tuple[Layer, ...]
    env: Environment
    model: str

    @property
    def unit(self) -> str:
        """Its selector: ``native`` or ``native/a``."""
        return self.role if self.name is None else f"{self.role}/{self.name}"

    @property
    def lead(self) -> Host:
        """The host of node rank 0."""
        return self.hosts[0]

    @property
    def meeting(self) -> str:
        """Where its ranks meet: ``10.0.0.1:5000``."""
        return endpoint(self.shape.leader_address, self.ports.rendezvous)

    @property
    def model_key(self) -> KeyPath:
        """Where the profile says which folder its weights are in."""
        return ("model", "path") if self.spec.model_path is None else (*self.path, "model_path")

    def model_at(self, stage: int) -> str:
        """Give the folder of the weights of a pipeline stage."""
        return self.model.replace(STAGE, str(stage))

    def flag_path(self, name: str) -> KeyPath:
        """Where the profile set a flag, the highest layer first; the instance itself where it did not."""
        return flag_path(self.layers, name) or self.path

    def env_path(self, name: str) -> KeyPath:
        """Where the profile set a variable; the platform's settings where it did not."""
        return self.env.keys.get(name, ("platform_settings",))


@dataclass(frozen=True)
class Wanted:
    """An instance of the profile and the hosts it selects, in the order written."""

    spot: Spot
    spec: Instance
    hosts: tuple[Host, ...]

    @property
    def path(self) -> KeyPath:
        """Where it stands in the profile."""
        return self.spot.path


@dataclass(frozen=True)
class Context:
    """What all instances of a profile share.

    Attributes:
        profile: what was written.
        platform: the hardware, with its settings.
        catalogue: flags of the engine.
        router_catalogue: flags of the router, None where the topology has none.
        layers: every ``flags`` mapping of the profile, normalised, by its path.
    """

    profile: Profile
    platform: Platform
    catalogue: Catalogue
    router_catalogue: Catalogue | None
    layers: Mapping[KeyPath, Layer]

    @property
    def router(self) -> Router | None:
        """What the profile says about the router."""
        found: Router | None = getattr(self.profile, "router", None)
        return found

    @property
    def tokenizer_apart(self) -> bool:
        """Whether HTTP and tokenizing happen in servers beside the router."""
        return self.router is not None and self.router.tokenizer == "separate"

    @property
    def engine_env(self) -> tuple[KeyPath, Mapping[str, EnvSetting]]:
        """The variables of every process, and where they stand."""
        return ("engine", "env"), self.profile.engine.env

    def launch(self, role: str) -> Launch:
        """Say how processes of a role are started."""
        engine = self.profile.engine
        by_rank, path = engine.launch == "rank", self.profile.model.path.replace(STAGE, "0")
        return Launch(role, path, by_rank, engine.numa_copies, self.tokenizer_apart)

    def platform_layer(self, launch: Launch) -> Layer:
        """Give the lowest layer of flags."""
        return Layer(f"platform {self.platform.kind}", self.platform.flags(launch))

    def layers_at(self, *paths: KeyPath) -> tuple[Layer, ...]:
        """Give the flag layers that the profile has at these places."""
        return tuple(self.layers[path] for path in paths if path in self.layers)


def lay_out(context: Context, wanted: Wanted, earlier: Sequence[Layout]) -> Layout:
    """Derive everything about an instance.

    Args:
        context: what it shares with the others.
        wanted: the instance.
        earlier: those laid out before it; ports that the profile leaves open keep out of their way.
    """
    platform, spec, spot = context.platform, wanted.spec, wanted.spot
    hosts = leader_first(wanted.hosts, spec.leader)
    shape = _shape(context, wanted, hosts, sum(layout.role == spot.role for layout in earlier))
    layers = (context.platform_layer(shape), *context.layers_at(("engine", "flags"), (*spot.path, "flags")))
    flags = merge_flags(layers)
    names = {host.name for host in hosts}
    beside = sum(not names.isdisjoint(host.name for host in layout.hosts) for layout in earlier)
    base = {**platform.env(shape), **platform.size_env(shape)}
    return Layout(
        role=spot.role,
        name=spot.name,
        path=spot.path,
        spec=spec,
        hosts=hosts,
        shape=shape,
        ports=Ports(
            http=spec.port or HTTP_PORT + SHARED_STEP * beside,
            bootstrap=_bootstrap(context, wanted, hosts[0], earlier),
            rendezvous=shape.rendezvous_port,
            derived=platform.derived_ports(shape, dp_attention=flags.get("enable-dp-attention") is True),
        ),
        flags=flags,
        layers=layers,
        env=environment(base, platform.env_prepend(shape), context.engine_env, ((*spot.path, "env"), spec.env)),
        model=spec.model_path or context.profile.model.path,
    )


def _shape(context: Context, wanted: Wanted, hosts: tuple[Host, ...], index: int) -> Shape:
    platform, sizes, launch = context.platform, wanted.spec.parallel, context.launch(wanted.spot.role)
    return Shape(
        role=launch.role,
        model_path=(wanted.spec.model_path or context.profile.model.path).replace(STAGE, "0"),
        by_rank=launch.by_rank,
        numa_copies=launch.numa_copies,
        tokenizer_apart=launch.tokenizer_apart,
        index=index,
        nodes=len(hosts),
        tp=sizes.tp,
        pp=sizes.pp,
        dp=sizes.dp or platform.default_dp(len(hosts), sizes.pp),
        ep=sizes.ep or platform.default_ep(sizes.tp),
        leader_address=hosts[0].address,
        rendezvous_port=wanted.spec.rendezvous.port or platform.rendezvous_port(launch.role, index),
    )


def _bootstrap(context: Context, wanted: Wanted, lead: Host, earlier: Sequence[Layout]) -> int | None:
    """Give the bootstrap port: the first one that no earlier prefill has on the host where the server is.

    The server is part of what serves HTTP for a prefill: its leader, or with separate tokenizers the one beside the
    router (engine 0.5.23 starts it with the tokenizer; that the fork does so too is an assumption).
    """
    default = context.platform.bootstrap_ports.get(wanted.spot.role)
    if wanted.spot.role == "decode" or wanted.spec.bootstrap_port is not None or default is None:
        return None if wanted.spot.role == "decode" else wanted.spec.bootstrap_port
    taken = {
        layout.ports.bootstrap
        for layout in earlier
        if layout.role == "prefill" and (context.tokenizer_apart or layout.lead == lead)
    }
    return next(port for port in range(default, default + len(taken) + 1) if port not in taken)


def leader_first(hosts: tuple[Host, ...], leader: str | None) -> tuple[Host, ...]:
    """Move the leader to node rank 0; a leader that is not among the hosts changes nothing (a check names it)."""
    first = tuple(host for host in hosts if host.name == leader)
    return (*first, *(host for host in hosts if host.name != leader))


def flag_path(layers: Sequence[Layer], name: str) -> KeyPath | None:
    """Where the profile set a flag, the highest layer first; None where it did not."""
    return next((layer.keys[name] for layer in reversed(layers) if name in layer.keys), None)
