"""Laid-out instances → the plan: every process written out. Pure, and quick for thousands of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgdeploy.plan.flags import split_secrets
from sgdeploy.plan.model import (
    FrontDoor,
    Health,
    Hugepages,
    KernelModule,
    Limits,
    Plan,
    PlanHost,
    PlannedFile,
    Process,
    SecretConfig,
    SecretRef,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sgdeploy.plan.layout import Context, Layout
    from sgdeploy.plan.model import EnvValue
    from sgdeploy.profile.inventory import Host, Inventory

ROOT_RUN_DIR = "/var/lib/sgdeploy"
USER_RUN_DIR = "~/.local/state/sgdeploy"
REHEARSAL = ("python3", "-I", "-S", "engine.py")
"""Command of the simulated engine; its last word lies in the run folder."""

_REHEARSAL_FILE = PlannedFile(path="engine.py", source="rehearse/engine.py", mode="0755")
_CONFIG = "--config"


@dataclass(frozen=True)
class _NodeParts:
    """What all processes of one node share, so that thousands of processes hold few mappings."""

    host: Host
    rank: int
    env: Mapping[str, EnvValue]
    words: tuple[str, ...]


def build_plan(context: Context, inventory: Inventory, layouts: Sequence[Layout]) -> Plan:
    """Write out the plan of checked layouts."""
    profile = context.profile
    processes = tuple(process for layout in layouts for process in _processes(context, layout))
    hosts = _hosts(context, inventory, layouts, processes)
    return Plan(
        name=profile.name,
        topology=profile.topology,
        platform=profile.platform,
        engine_version=context.catalogue.version,
        stages=(tuple(layout.unit for layout in layouts),),
        hosts=hosts,
        processes=processes,
        front_door=_front_door(context, layouts[0]),
        limits=Limits(timeout=profile.health.timeout, stall=profile.health.stall, grace=profile.health.grace),
    )


def _processes(context: Context, layout: Layout) -> Iterator[Process]:
    ranks = range(layout.shape.ranks_per_node) if layout.shape.by_rank else (None,)
    common, secrets = _common_words(context, layout)
    for node_rank, host in enumerate(layout.hosts):
        own = {k: v for k, v in context.platform.host_env(host).items() if k not in layout.env.set_by_profile}
        node = _NodeParts(host, node_rank, {**layout.env.values, **own}, _node_words(layout, host, node_rank) + common)
        for rank in ranks:
            yield _process(context, layout, node, rank, secrets)


def _process(
    context: Context, layout: Layout, node: _NodeParts, rank: int | None, secrets: Mapping[str, SecretRef]
) -> Process:
    """Write out one process.

    All values are already of the right types, so that pydantic need not look at each of them again.
    """
    leader = node.rank == 0 and not rank
    port = layout.ports.http + (rank or 0)
    label = f"{layout.unit}/{node.host.name}" + ("" if rank is None else f"/r{rank:02d}")
    start = _start_words(context, layout, rank)
    argv = [*start, *_rank_words(rank, port), *node.words]
    in_run_dir = [start.index(REHEARSAL[-1])] if start == REHEARSAL else []
    secret_config = None
    if secrets:
        path = f"secrets/{label.replace('/', '-')}.yaml"
        secret_config = SecretConfig(path=path, values=secrets)
        argv += [_CONFIG, path]
        in_run_dir.append(len(argv) - 1)
    place = context.platform.place(layout.shape, rank)
    return Process.model_construct(
        id=f"{context.profile.name}/{label}",
        role=layout.role,
        instance=layout.name,
        host=node.host.name,
        address=node.host.address,
        node_rank=node.rank,
        rank_in_node=rank,
        leader=leader,
        argv=tuple(argv),
        in_run_dir=tuple(in_run_dir),
        env=node.env,
        env_prepend=layout.env.prepend,
        activate=_activate(context, layout),
        cwd=context.profile.engine.cwd,
        cores=place.cores if context.profile.node.pin else None,
        memory_nodes=place.memory_nodes,
        hugepages=tuple(Hugepages.model_construct(path=w.path, value=w.pages) for w in place.hugepages),
        devices=place.devices,
        listens=_listens(layout, port, leader=leader),
        connects={"rendezvous": _address(layout.shape.leader_address, layout.ports.rendezvous)},
        log=_log(layout, node.rank, rank),
        wait_for=(),
        health=Health(milestones="engine", http="/health") if leader else Health(milestones="engine-follower"),
        secret_config=secret_config,
    )


def _start_words(context: Context, layout: Layout, rank: int | None) -> tuple[str, ...]:
    engine = context.profile.engine
    if engine.executable == "rehearsal":
        return REHEARSAL
    if engine.executable is not None:
        return (engine.executable,)
    return context.platform.executable(layout.shape, rank, engine.python)


def _rank_words(rank: int | None, port: int) -> list[str]:
    words = ["--port", str(port)]
    return words if rank is None else ["--tp-rank-in-node", str(rank), *words]


def _node_words(layout: Layout, host: Host, node_rank: int) -> tuple[str, ...]:
    met = _address(layout.shape.leader_address, layout.ports.rendezvous)
    nodes = ("--nnodes", str(layout.shape.nodes), "--node-rank", str(node_rank))
    return ("--host", host.address, *nodes, "--dist-init-addr", met)


def _common_words(context: Context, layout: Layout) -> tuple[tuple[str, ...], dict[str, SecretRef]]:
    """Give the words that all processes of an instance share, and its secrets by flag name."""
    model, shape = context.profile.model, layout.shape
    words = ["--model-path", model.path]
    if model.served_name is not None:
        words += ["--served-model-name", model.served_name]
    words += ["--tp-size", str(shape.tp)]
    said = context.platform.states_all_sizes
    if said or shape.pp > 1:
        words += ["--pp-size", str(shape.pp)]
    if said or shape.dp > 1:
        words += ["--dp-size", str(shape.dp)]
    if shape.ep is not None:
        words += ["--ep-size", str(shape.ep)]
    if layout.ports.bootstrap is not None:
        words += ["--disaggregation-bootstrap-port", str(layout.ports.bootstrap)]
    shown, secrets = split_secrets(layout.flags)
    words += context.catalogue.argv(shown)
    return tuple(words), {name: SecretRef(secret=f"env:{secret.name}") for name, secret in secrets.items()}


def _listens(layout: Layout, port: int, *, leader: bool) -> dict[str, int | None]:
    """Give the ports that one process opens; without a prefill and decode split nobody opens the bootstrap port."""
    ports: dict[str, int | None] = {"http": port, "bootstrap": None}
    if leader:
        ports["rendezvous"] = layout.ports.rendezvous
    return ports


def _activate(context: Context, layout: Layout) -> tuple[str, ...]:
    asked = context.profile.engine.activate
    return context.platform.activate(layout.shape) if asked is None else tuple(asked)


def _log(layout: Layout, node_rank: int, rank: int | None) -> str:
    return f"{layout.unit.replace('/', '-')}-n{node_rank:03d}" + ("" if rank is None else f"-r{rank:02d}") + ".log"


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _front_door(context: Context, first: Layout) -> FrontDoor:
    model, lead = context.profile.model, first.hosts[0]
    _, secrets = split_secrets(first.flags)
    key = secrets.get("api-key")
    return FrontDoor(
        host=lead.name,
        address=lead.address,
        port=first.ports.http,
        model=model.served_name or model.path,
        api_key=None if key is None else SecretRef(secret=f"env:{key.name}"),
    )


def _hosts(
    context: Context, inventory: Inventory, layouts: Sequence[Layout], processes: Sequence[Process]
) -> tuple[PlanHost, ...]:
    pages: dict[str, dict[str, Hugepages]] = {}
    for process in processes:
        final = pages.setdefault(process.host, {})
        for write in process.hugepages:
            final[write.path] = write
    wanted = context.platform.modules() if context.profile.node.load_modules else ()
    modules = tuple(KernelModule(name=module.name, file=module.file, params=module.params) for module in wanted)
    files = (_REHEARSAL_FILE,) if context.profile.engine.executable == "rehearsal" else ()
    fields: dict[str, Any] = {
        "known_hosts": inventory.known_hosts,
        "sysfs_root": context.profile.node.sysfs_root,
        "modules": modules,
        "files": files,
    }
    unique = {host.name: host for layout in layouts for host in layout.hosts}
    return tuple(_host(context, host, tuple(pages[host.name].values()), fields) for host in unique.values())


def _host(context: Context, host: Host, pages: tuple[Hugepages, ...], fields: Mapping[str, Any]) -> PlanHost:
    root = context.profile.node.run_dir or (ROOT_RUN_DIR if host.user == "root" else USER_RUN_DIR)
    return PlanHost(
        host=host.name,
        address=host.address,
        ssh=host.ssh,
        connection=host.connection,
        user=host.user,
        port=host.port,
        run_dir=f"{root.rstrip('/')}/{context.profile.name}/{host.name}",
        hugepages=pages,
        **fields,
    )
