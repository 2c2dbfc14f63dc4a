"""A laid-out instance → its processes, every one written out; quick for thousands of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sgdeploy.plan.command import activation, command, engine_start, flag_words, model_words
from sgdeploy.plan.endpoint import endpoint
from sgdeploy.plan.model import Health, Hugepages, Process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sgdeploy.plan.layout import Context, Layout
    from sgdeploy.plan.model import EnvValue, SecretRef
    from sgdeploy.profile.inventory import Host

_SERVES = Health(milestones="engine", http="/health")
_LOADS = Health(milestones="engine-follower")


@dataclass(frozen=True)
class _NodeParts:
    """What all processes of one node and pipeline stage share, so that thousands of processes hold few mappings."""

    host: Host
    rank: int
    env: Mapping[str, EnvValue]
    words: tuple[str, ...]
    connects: Mapping[str, str]


def rank_processes(context: Context, layout: Layout, prefills: Sequence[Layout]) -> Iterator[Process]:
    """Write out the processes of an instance, node by node.

    Args:
        context: what all instances share.
        layout: the instance.
        prefills: the prefill instances of the deployment, which decode asks for KV cache.
    """
    ranks = range(layout.shape.ranks_per_node) if layout.shape.by_rank else (None,)
    common, secrets = _common_words(context, layout)
    models = [_Model(context, layout, stage) for stage in range(layout.shape.pp)]
    connects = {"rendezvous": layout.meeting}
    if layout.role == "decode" and not context.tokenizer_apart:
        connects |= {_bootstrap_name(one): endpoint(one.lead.address, one.ports.bootstrap or 0) for one in prefills}
    for node_rank, host in enumerate(layout.hosts):
        own = {k: v for k, v in context.platform.host_env(host).items() if k not in layout.env.keys}
        words = _node_words(layout, host, node_rank)
        parts: dict[int, _NodeParts] = {}
        for rank in ranks:
            stage = min(layout.shape.stages_of(node_rank, rank)[0], len(models) - 1)
            if stage not in parts:
                env = {**layout.env.values, **models[stage].env, **own}
                parts[stage] = _NodeParts(host, node_rank, env, (*words, *models[stage].words, *common), connects)
            yield _process(context, layout, parts[stage], rank, secrets)


class _Model:
    """What depends on the folder of a pipeline stage's weights: words, and variables of the platform.

    Only a path with ``{stage}`` in it gives variables that differ from those of the instance.
    """

    def __init__(self, context: Context, layout: Layout, stage: int) -> None:
        platform, folder = context.platform, layout.model_at(stage)
        self.words = tuple(model_words(context, folder))
        usual = platform.env(layout.shape)
        its_own = platform.env(replace(layout.shape, model_path=folder)) if folder != layout.shape.model_path else usual
        self.env = {k: v for k, v in its_own.items() if usual.get(k) != v and k not in layout.env.keys}


def _bootstrap_name(prefill: Layout) -> str:
    return "bootstrap" if prefill.name is None else f"bootstrap/{prefill.name}"


def _process(
    context: Context, layout: Layout, node: _NodeParts, rank: int | None, secrets: Mapping[str, SecretRef]
) -> Process:
    """Write out one process.

    All values are already of the right types, so that pydantic need not look at each of them again.
    """
    leader = node.rank == 0 and not rank
    serves = leader and not (context.tokenizer_apart and layout.role != "native")
    port = layout.ports.http + (rank or 0)
    label = f"{layout.unit}/{node.host.name}" + ("" if rank is None else f"/r{rank:02d}")
    split = layout.role != "native"
    devices = context.platform.devices(node.host, layout.shape, rank) if split else ()
    words = [*_rank_words(rank, port, devices), *node.words]
    run = command(engine_start(context, layout.shape, rank), words, label, secrets)
    place = context.platform.place(layout.shape, rank)
    pinned = place.cores if layout.spec.cores is None else layout.spec.cores or None
    return Process.model_construct(
        id=f"{context.profile.name}/{label}",
        role=layout.role,
        instance=layout.name,
        host=node.host.name,
        address=node.host.address,
        node_rank=node.rank,
        rank_in_node=rank,
        leader=leader,
        argv=run.argv,
        in_run_dir=run.in_run_dir,
        env=node.env,
        env_prepend=layout.env.prepend,
        activate=activation(context, layout.shape),
        cwd=context.profile.engine.cwd,
        cores=pinned if context.profile.node.pin else None,
        memory_nodes=place.memory_nodes if layout.spec.memory_nodes is None else layout.spec.memory_nodes or None,
        hugepages=tuple(Hugepages.model_construct(path=w.path, value=w.pages) for w in place.hugepages),
        devices=devices,
        listens=_listens(layout, port, leader=leader, serves=serves),
        connects=node.connects,
        log=_log(layout, node.rank, rank),
        wait_for=(),
        health=_SERVES if serves else _LOADS,
        secret_config=run.secret_config,
    )


def _rank_words(rank: int | None, port: int, devices: tuple[str, ...]) -> list[str]:
    words = ["--port", str(port)]
    if devices:
        words += ["--disaggregation-ib-device", ",".join(devices)]
    return words if rank is None else ["--tp-rank-in-node", str(rank), *words]


def _node_words(layout: Layout, host: Host, node_rank: int) -> tuple[str, ...]:
    nodes = ("--nnodes", str(layout.shape.nodes), "--node-rank", str(node_rank))
    return ("--host", host.address, *nodes, "--dist-init-addr", layout.meeting)


def _common_words(context: Context, layout: Layout) -> tuple[tuple[str, ...], dict[str, SecretRef]]:
    """Give the words that all processes of an instance share, and its secrets by flag name."""
    shape = layout.shape
    words = ["--tp-size", str(shape.tp)]
    said = context.platform.states_all_sizes
    if said or shape.pp > 1:
        words += ["--pp-size", str(shape.pp)]
    if said or shape.dp > 1:
        words += ["--dp-size", str(shape.dp)]
    if shape.ep is not None:
        words += ["--ep-size", str(shape.ep)]
    if layout.role != "native":
        words += ["--disaggregation-mode", layout.role]
    if layout.ports.bootstrap is not None:
        words += ["--disaggregation-bootstrap-port", str(layout.ports.bootstrap)]
    shown, secrets = flag_words(context.catalogue, layout.flags)
    return (*words, *shown), secrets


def _listens(layout: Layout, port: int, *, leader: bool, serves: bool) -> dict[str, int | None]:
    """Give the ports that one process opens.

    A prefill leader that serves opens the bootstrap port; without a split nobody does, and with separate tokenizers
    the server beside the router does, and a leader opens no HTTP.
    """
    opens = layout.ports.bootstrap if serves and layout.role == "prefill" else None
    ports: dict[str, int | None] = {"http": None if leader and not serves else port, "bootstrap": opens}
    if leader:
        ports["rendezvous"] = layout.ports.rendezvous
    return ports


def _log(layout: Layout, node_rank: int, rank: int | None) -> str:
    return f"{layout.unit.replace('/', '-')}-n{node_rank:03d}" + ("" if rank is None else f"-r{rank:02d}") + ".log"
