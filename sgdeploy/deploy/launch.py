"""Starting the processes of a plan on all its hosts."""

from __future__ import annotations

import json
import secrets as random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sgdeploy.deploy.events import HostState, Tell
from sgdeploy.deploy.fleet import Answers, Fleet, Refusal
from sgdeploy.deploy.options import Owner
from sgdeploy.plan.model import Plan, PlanHost, Process, SecretRef
from sgdeploy.remote.base import Json, LostHostError, NodeError
from sgdeploy.remote.waits import together
from sgdeploy.words import plural

START_SILENCE = 60.0
"""Longest time a host may take from one start to the next: hugepage writes of some GB are slow on a busy node."""


def new_launch_id() -> str:
    """Make the id of a launch: unlike any other's."""
    return random.token_hex(8)


@dataclass(frozen=True)
class Launch:
    """One bring-up's starts: all of them carry one launch id, so that a later stage adds to the same records.

    Attributes:
        fleet: one open session per host of the plan.
        plan: what is started.
        owner: who starts it.
        secrets: the value of each secret variable.
        tell: hears each host that has started its processes of a stage.
        id: of this launch.
    """

    fleet: Fleet
    plan: Plan
    owner: Owner
    secrets: Mapping[str, str] = field(repr=False)
    tell: Tell
    id: str = field(default_factory=new_launch_id)

    async def start(self, processes: Collection[Process]) -> Answers:
        """Start some processes of the plan: all hosts at once, each host's processes in plan order.

        A host on which a start fails has already cleaned itself up when it says so; the others are the caller's to
        stop.
        """
        results: dict[str, Json] = {}
        refusals: dict[str, Refusal] = {}

        async def one(host: PlanHost) -> None:
            try:
                results[host.host] = await self._start_on(host, [p for p in processes if p.host == host.host])
            except (NodeError, LostHostError) as refusal:
                refusals[host.host] = refusal

        names = {process.host for process in processes}
        await together(*(one(host) for host in self.plan.hosts if host.host in names))
        return Answers(results, refusals)

    async def _start_on(self, host: PlanHost, processes: Collection[Process]) -> Json:
        head = {"id": self.id, "deployment": self.plan.name, "host": host.host, "digest": self.plan.digest}
        arguments: Json = {
            "run_dir": host.run_dir,
            "launch": {**head, "owner": self.owner.to_json()},
            "sysfs_root": host.sysfs_root,
            "modules": [module.model_dump(mode="json") for module in host.modules],
            "hugepages": [pages.model_dump(mode="json") for pages in host.hugepages],
            "processes": [_process(process, self.secrets) for process in processes],
        }
        started = 0
        async for event in self.fleet.sessions[host.host].stream("start", arguments, silence=START_SILENCE):
            started += "started" in event
        self.tell(HostState(host.host, "started", plural(started, "process")))
        return {"started": started}


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
