"""`status`: the truth about a deployment, from its hosts, at this moment. Nothing is changed and nothing is cached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from sgdeploy.deploy.advice import advice
from sgdeploy.deploy.completion import NoCompletionError, complete
from sgdeploy.deploy.diagnose import causes
from sgdeploy.deploy.events import DeploymentStatus, Event, ProcessStatus
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.lock import describe, holder_of
from sgdeploy.deploy.records import RecordedProcess, Records, survey
from sgdeploy.deploy.watch import Watch, watching
from sgdeploy.errors import RemoteError
from sgdeploy.health.machine import ProcessHealth
from sgdeploy.plan.model import Plan, PlanHost, Process
from sgdeploy.remote.base import Connector, LostHostError, NodeError
from sgdeploy.words import plural

LOOK = 6.0
"""Seconds that the hosts are listened to: a leader that is well answers /health after one second, a busy one later."""


async def status(
    plan: Plan,
    connector: Connector,
    secrets: Mapping[str, str],
    *,
    advise: bool = False,
    also: tuple[PlanHost, ...] = (),
) -> DeploymentStatus:
    """Look at a deployment.

    The plan that is judged is the one on record on the hosts; the given one only says where to look, and is compared.
    ``ready`` takes the same proof as in ``up``, completion included.

    Args:
        plan: the profile's plan now, or the one remembered.
        connector: opens the hosts.
        secrets: values of secret variables where known (an API key, for the completion).
        advise: whether to look at the figures of its servers as well.
        also: hosts that the plan does not have and that may hold records.

    Raises:
        RemoteError: no host at all could be reached.
    """
    try:
        seen = await survey(connector, (*plan.hosts, *also))
        fleet, records = seen.fleet, seen.records
        if not fleet.sessions:
            raise RemoteError("no host could be reached", seen.away)
        unreachable = {fault.host: fault.reason for fault in (*seen.away, *records.faults)}
        running = records.plans[0] if records.plans else plan
        here = {host.host for host in running.hosts}
        before = {name: unreachable.pop(name) for name in [*unreachable] if name not in here}
        watch = await _look(fleet, running, records)
        wrong = await _completion(fleet, running, watch, unreachable, secrets)
        found = _report(running, plan, records, watch, unreachable, await _owner(fleet, plan), wrong)
        asked = (f"{name}: cannot be asked whether it still runs there: {reason}" for name, reason in before.items())
        found = replace(found, drift=(*found.drift, *asked))
        if any(row.state == "failed" for row in found.processes):
            found = replace(found, causes=await causes(fleet, running, records))
        return replace(found, advice=await advice(fleet, running, records)) if advise else found
    finally:
        await connector.close_all()


def _silent(_event: Event) -> None:
    """Status tells once, at the end."""


async def _look(fleet: Fleet, plan: Plan, records: Records) -> Watch:
    """Listen to the hosts that have something on record; the others have nothing to say."""
    recorded = {process.id for found in records.hosts.values() for process in found.processes}
    there = [process for process in plan.processes if process.id in recorded]
    hosts = Fleet({process.host: fleet.sessions[process.host] for process in there})
    async with watching(hosts, plan, _silent) as watch:
        watch.started(there)
        await watch.observe_for(LOOK, [process.id for process in there])
    return watch


async def _completion(
    fleet: Fleet, plan: Plan, watch: Watch, unreachable: Mapping[str, str], secrets: Mapping[str, str]
) -> str:
    """Prove readiness by a completion; give what is wrong, or "" where it is well or not due yet."""
    if unreachable or not watch.health.all_ready:
        return ""
    try:
        await complete(fleet, plan.front_door, secrets, tries=1)
    except (NoCompletionError, NodeError, LostHostError) as error:
        return f"no completion: {error}"
    return ""


async def _owner(fleet: Fleet, plan: Plan) -> str:
    owner = await holder_of(fleet, plan.lead_host)
    return describe(owner) if owner else ""


def _report(
    running: Plan,
    plan: Plan,
    records: Records,
    watch: Watch,
    unreachable: Mapping[str, str],
    owner: str,
    wrong: str,
) -> DeploymentStatus:
    recorded = {process.id: process for found in records.hosts.values() for process in found.processes}
    rows = tuple(
        _row(process, watch.health.processes[process.id], recorded.get(process.id), unreachable.get(process.host))
        for process in running.processes
    )
    unproven = [f"{fault.host}: {fault.reason}; {fault.hint}" for fault in records.orphans] + ([wrong] if wrong else [])
    unproven += _strays(running, records)
    drift = [f"{name}: {sentence}" for name, found in records.hosts.items() for sentence in found.damaged]
    if recorded and running.digest != plan.digest:
        drift.append(
            f"what runs was planned as {running.digest[:19]}…, the profile now plans {plan.digest[:19]}…; "
            "`sgdeploy diff` with the profile's path shows what differs"
        )
    return DeploymentStatus(
        name=plan.name,
        state=_state(rows, well=not unproven),
        digest=running.digest if recorded else "",
        drift=(*drift, *unproven),
        unreachable=dict(unreachable),
        locked_by=owner,
        processes=rows,
        front_door=running.front_door.url,
    )


def _strays(running: Plan, records: Records) -> list[str]:
    """Say on which hosts something lives that what runs does not have there: a change was not carried through."""
    placed = {(process.id, process.host) for process in running.processes}
    hosts = {name: [p for p in there.living if (p.id, name) not in placed] for name, there in records.hosts.items()}
    return [
        f"{name}: {plural(len(strays), 'process')} from before {'lives' if len(strays) == 1 else 'live'} there, which "
        f"the plan does not have; `sgdeploy down {running.name}` stops all of it"
        for name, strays in hosts.items()
        if strays
    ]


def _row(
    process: Process, health: ProcessHealth, recorded: RecordedProcess | None, unreachable: str | None
) -> ProcessStatus:
    state, reason, phase = health.state, health.reason, health.phase
    if unreachable is not None:
        state, reason, phase = "lost", unreachable, "host unreachable"
    elif recorded is None:
        state, reason, phase = "stopped", "", "not running"
    return ProcessStatus(
        process=process.id,
        host=process.host,
        unit=process.unit,
        state=state,
        pid=recorded.pid if recorded else None,
        phase=phase,
        seconds=recorded.seconds if recorded else None,
        http="" if health.http is None else health.http.text(),
        line=health.line,
        reason=reason,
    )


def _state(rows: Sequence[ProcessStatus], *, well: bool) -> Literal["ready", "starting", "degraded", "down"]:
    states = {row.state for row in rows}
    if states == {"stopped"} and well:
        return "down"
    if states & {"failed", "lost", "stopped"} or not well:
        return "degraded"
    return "ready" if states == {"ready"} else "starting"
