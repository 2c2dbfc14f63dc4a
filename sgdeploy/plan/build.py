"""Laid-out instances and router → the plan: every process written out, in the order of starting. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgdeploy.plan.command import REHEARSAL
from sgdeploy.plan.flags import split_secrets
from sgdeploy.plan.front import ROUTER, front_processes
from sgdeploy.plan.model import (
    FrontDoor,
    Hugepages,
    KernelModule,
    Limits,
    Plan,
    PlanHost,
    PlannedFile,
    RestartPolicy,
    SecretRef,
)
from sgdeploy.plan.ranks import rank_processes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sgdeploy.plan.layout import Context, Layout
    from sgdeploy.plan.model import Process
    from sgdeploy.plan.routing import Routing
    from sgdeploy.profile.inventory import Host, Inventory

ROOT_RUN_DIR = "/var/lib/sgdeploy"
USER_RUN_DIR = "~/.local/state/sgdeploy"

_REHEARSAL_FILE = PlannedFile(path=REHEARSAL[-1], source="rehearse/engine.py", mode="0755")


def build_plan(context: Context, inventory: Inventory, layouts: Sequence[Layout], routing: Routing | None) -> Plan:
    """Write out the plan of checked layouts."""
    profile = context.profile
    prefills = [layout for layout in layouts if layout.role == "prefill"]
    processes = [process for layout in layouts for process in rank_processes(context, layout, prefills)]
    if routing is not None:
        processes += front_processes(context, routing)
    hosts = [host for layout in layouts for host in layout.hosts] + ([] if routing is None else [routing.host])
    return Plan(
        name=profile.name,
        topology=profile.topology,
        platform=profile.platform,
        engine_version=context.catalogue.version,
        stages=_stages(layouts, routing),
        hosts=_hosts(context, inventory, hosts, processes),
        processes=tuple(processes),
        front_door=_front_door(context, layouts[0], routing),
        limits=Limits(timeout=profile.health.timeout, stall=profile.health.stall, grace=profile.health.grace),
        restarts=_restarts(layouts, routing),
    )


def _restarts(layouts: Sequence[Layout], routing: Routing | None) -> dict[str, RestartPolicy]:
    """Give who is restarted when it fails; a tokenizer apart follows its instance."""
    asked = {layout.unit: layout.spec.restart for layout in layouts}
    if routing is not None:
        asked |= {tokenizer.unit: tokenizer.layout.spec.restart for tokenizer in routing.tokenizers}
        asked[ROUTER] = routing.spec.restart
    return {
        unit: RestartPolicy(max=wanted.max, backoff=wanted.backoff)
        for unit, wanted in asked.items()
        if wanted is not None and wanted.policy == "on-failure"
    }


def _stages(layouts: Sequence[Layout], routing: Routing | None) -> tuple[tuple[str, ...], ...]:
    """Give the order of starting: all instances together, then the servers beside the router, the router last."""
    stages = [tuple(layout.unit for layout in layouts)]
    if routing is not None:
        stages += [tuple(tokenizer.unit for tokenizer in routing.tokenizers), (ROUTER,)]
    return tuple(stage for stage in stages if stage)


def _front_door(context: Context, first: Layout, routing: Routing | None) -> FrontDoor:
    """Give where clients go: the router, else the leader of the first instance.

    The router hands on the key that a client sends, so the front door's key is that of the instances.
    """
    model = context.profile.model
    host, port = (first.lead, first.ports.http) if routing is None else (routing.host, routing.port)
    _, secrets = split_secrets(first.flags)
    key = secrets.get("api-key")
    return FrontDoor(
        host=host.name,
        address=host.address,
        port=port,
        model=model.served_name or first.model_at(0),
        api_key=None if key is None else SecretRef(secret=f"env:{key.name}"),
        workers=() if routing is None else routing.workers,
    )


def _hosts(
    context: Context, inventory: Inventory, hosts: Sequence[Host], processes: Sequence[Process]
) -> tuple[PlanHost, ...]:
    mine: dict[str, list[Process]] = {host.name: [] for host in hosts}
    for process in processes:
        mine[process.host].append(process)
    fields: dict[str, Any] = {"known_hosts": inventory.known_hosts, "sysfs_root": context.profile.node.sysfs_root}
    unique = {host.name: host for host in hosts}
    return tuple(_host(context, host, mine[host.name], fields) for host in unique.values())


def _host(context: Context, host: Host, processes: Sequence[Process], fields: Mapping[str, Any]) -> PlanHost:
    root = context.profile.node.run_dir or (ROOT_RUN_DIR if host.user == "root" or host.sudo else USER_RUN_DIR)
    pages: dict[str, Hugepages] = {write.path: write for process in processes for write in process.hugepages}
    roles = {process.role for process in processes}
    wanted = context.platform.modules(roles) if context.profile.node.load_modules else ()
    rehearses = any(process.argv[: len(REHEARSAL)] == REHEARSAL for process in processes)
    return PlanHost(
        host=host.name,
        address=host.address,
        ssh=host.ssh,
        connection=host.connection,
        user=host.user,
        port=host.port,
        sudo=host.sudo,
        run_dir=f"{root.rstrip('/')}/{context.profile.name}/{host.name}",
        modules=tuple(KernelModule(name=one.name, file=one.file, params=one.params) for one in wanted),
        hugepages=tuple(pages.values()),
        files=(_REHEARSAL_FILE,) if rehearses else (),
        **fields,
    )
