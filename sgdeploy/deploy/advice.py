"""`status --advice`: the figures of servers that work, from both ends of their logs and their metrics."""

from __future__ import annotations

from sgdeploy.deploy.diagnose import process_log
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.records import Records
from sgdeploy.diagnose.advice import Advice, advise
from sgdeploy.plan.model import Plan, Process
from sgdeploy.remote.base import LostHostError, NodeError, NodeSession
from sgdeploy.remote.waits import together

METRICS = "--enable-metrics"


async def advice(fleet: Fleet, plan: Plan, records: Records) -> tuple[Advice, ...]:
    """Look at every server of a plan that lives; followers write the same figures as their leader."""
    living = {each.id: each for found in records.hosts.values() for each in found.processes if each.alive}
    servers = [each for each in plan.processes if each.id in living and each.health.milestones == "engine"]
    found: dict[str, list[Advice]] = {}

    async def one(process: Process) -> None:
        session = fleet.sessions[process.host]
        try:
            log = await process_log(session, process, living[process.id])
            metrics = await _metrics(session, process)
        except (NodeError, LostHostError):
            return
        if log is not None:
            found[process.id] = advise(process.id, process.host, [text for _, text in log.lines], metrics)

    await together(*map(one, servers))
    return tuple(each for process in servers for each in found.get(process.id, ()))


async def _metrics(session: NodeSession, process: Process) -> str:
    port = process.listens.get("http")
    if METRICS not in process.argv or port is None:
        return ""
    answer = await session.call("http", {"address": process.address, "port": port, "path": "/metrics"})
    return str(answer.get("body") or "")
