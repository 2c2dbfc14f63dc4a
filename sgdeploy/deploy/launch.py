"""Starting the processes of a plan on all its hosts."""

from __future__ import annotations

import asyncio
import json
import secrets as random
from collections.abc import Mapping

from sgdeploy.deploy.events import HostState, Tell
from sgdeploy.deploy.fleet import Answers, Fleet, Refusal
from sgdeploy.deploy.options import Owner
from sgdeploy.plan.model import Plan, PlanHost, Process, SecretRef
from sgdeploy.remote.base import Json, LostHostError, NodeError

START_SILENCE = 60.0
"""Longest time a host may take from one start to the next: hugepage writes of some GB are slow on a busy node."""


async def launch(fleet: Fleet, plan: Plan, owner: Owner, values: Mapping[str, str], tell: Tell) -> Answers:
    """Start every process of the plan, all hosts at once, each host's processes in plan order.

    A host on which a start fails has already cleaned itself up when it says so; the others are the caller's to stop.

    Args:
        fleet: one open session per host of the plan.
        plan: what to start.
        owner: who starts it.
        values: the value of each secret variable.
        tell: hears each host that has started all of its processes.
    """
    launch_id = random.token_hex(8)
    results: dict[str, Json] = {}
    refusals: dict[str, Refusal] = {}

    async def one(host: PlanHost) -> None:
        head = {"id": launch_id, "deployment": plan.name, "host": host.host, "digest": plan.digest}
        arguments: Json = {
            "run_dir": host.run_dir,
            "launch": {**head, "owner": owner.to_json()},
            "sysfs_root": host.sysfs_root,
            "modules": [module.model_dump(mode="json") for module in host.modules],
            "hugepages": [pages.model_dump(mode="json") for pages in host.hugepages],
            "processes": [_process(process, values) for process in plan.on_host(host.host)],
        }
        started = 0
        try:
            async for event in fleet.sessions[host.host].stream("start", arguments, silence=START_SILENCE):
                started += "started" in event
        except (NodeError, LostHostError) as refusal:
            refusals[host.host] = refusal
            return
        results[host.host] = {"started": started}
        tell(HostState(host.host, "started", f"{started} process{'es' if started != 1 else ''}"))

    await asyncio.gather(*(one(host) for host in plan.hosts))
    return Answers(results, refusals)


def _process(process: Process, values: Mapping[str, str]) -> Json:
    """Give what the node needs to start one process; secrets travel only here, over stdin of the helper."""
    wanted = {ref.variable for ref in process.env.values() if isinstance(ref, SecretRef)}
    config = process.secret_config
    return {
        "id": process.id,
        "key": process.key,
        "log": process.log,
        "hugepages": [pages.model_dump(mode="json") for pages in process.hugepages],
        "secrets": {name: values[name] for name in sorted(wanted)},
        "secret_file": None
        if config is None
        else {
            "path": config.path,
            # JSON strings are YAML strings: no value can break out of its line.
            "text": "".join(f"{flag}: {json.dumps(values[ref.variable])}\n" for flag, ref in config.values.items()),
        },
    }
