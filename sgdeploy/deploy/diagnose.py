"""`diagnose` over hosts: both ends of every log through the node helpers, then the same rules as for files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sgdeploy.deploy.confirm import confirmed, kernel_logs
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.records import RecordedProcess, Records, read_records, survey
from sgdeploy.diagnose.judge import judge
from sgdeploy.diagnose.model import Diagnosis, Finding, ProcessLog
from sgdeploy.diagnose.reading import Reading, read
from sgdeploy.engine.diagnosis import Matcher, diagnosis_rules
from sgdeploy.errors import (
    Cause,
    HostFault,
    ProcessFault,
    RemoteError,
    StartupError,
    UsageError,
    WaitTimeoutError,
)
from sgdeploy.health.states import Exit
from sgdeploy.plan.model import Plan, Process
from sgdeploy.remote.base import Connector, LostHostError, NodeError, NodeSession
from sgdeploy.remote.waits import together

ONCE = 1 << 20
"""Bytes of a log that its host gives at once."""

PATIENCE = 60.0
"""Seconds that the logs of one host may take; `diagnose` goes on without those that take longer."""

PATIENCE_ON_FAILURE = 8.0
"""The same for a command that has failed: the operator waits, and other hosts may tell enough."""

LIMIT = 20.0
"""Seconds that reading the logs may take when a command that failed asks for it."""

_LATE = {"lags-behind", "fell-silent", "all-wait"}
"""What may just need its time, and explains a wait that was too long."""

MOST = 3
"""So many causes go into an error."""


@dataclass(frozen=True)
class Diagnosed:
    """What was found, and whom nobody could ask."""

    diagnosis: Diagnosis
    unreachable: Mapping[str, str]


async def diagnose_deployment(plan: Plan, connector: Connector) -> Diagnosed:
    """Read the logs of a deployment, running or not, and find what is wrong.

    Raises:
        RemoteError: no host at all could be reached.
        UsageError: there is no log on any host.
    """
    try:
        seen = await survey(connector, plan.hosts)
        if not seen.fleet.sessions:
            raise RemoteError("no host could be reached", seen.away)
        running = seen.records.plans[0] if seen.records.plans else plan
        diagnosis = await _diagnosis(seen.fleet, running, seen.records, PATIENCE)
        if not diagnosis.seen:
            raise UsageError(f"no log of {plan.name} is on any of its hosts", hint="it was never started there")
        return Diagnosed(diagnosis, _reasons([*seen.away, *seen.records.faults]))
    finally:
        await connector.close_all()


async def explain(error: Exception, fleet: Fleet, plan: Plan) -> None:
    """Put what the logs tell into an error about processes; where they cannot be read it stays as it is."""
    if not isinstance(error, (StartupError, WaitTimeoutError)):
        return
    try:
        looking = _diagnosis(fleet, plan, await read_records(fleet), PATIENCE_ON_FAILURE)
        diagnosis = await asyncio.wait_for(looking, LIMIT)
    except (asyncio.TimeoutError, NodeError, LostHostError):
        return
    late = tuple(_cause(each) for each in diagnosis.notes if each.rule in _LATE)
    error.causes = causes_of(diagnosis) or (late if isinstance(error, WaitTimeoutError) else ())
    if isinstance(error, StartupError):
        by_process = {cause.process: cause for cause in error.causes}
        error.faults = tuple(_with_cause(fault, by_process.get(fault.process)) for fault in error.faults)


async def causes(fleet: Fleet, plan: Plan, records: Records) -> tuple[Cause, ...]:
    """Give what the logs of a deployment tell, none where they cannot be read in time."""
    try:
        return causes_of(await asyncio.wait_for(_diagnosis(fleet, plan, records, PATIENCE_ON_FAILURE), LIMIT))
    except asyncio.TimeoutError:
        return ()


def causes_of(diagnosis: Diagnosis) -> tuple[Cause, ...]:
    """Give the first few causes, for errors and statuses."""
    return tuple(map(_cause, diagnosis.findings[:MOST]))


def _cause(found: Finding) -> Cause:
    shown = tuple(f"{each.path}:{each.line} | {each.text}" for each in found.evidence)
    return Cause(found.rule, found.process, found.host, found.cause, found.next, shown)


def _with_cause(fault: ProcessFault, cause: Cause | None) -> ProcessFault:
    return fault if cause is None else replace(fault, cause=cause)


def _reasons(faults: Sequence[HostFault]) -> dict[str, str]:
    return {fault.host: fault.reason for fault in faults}


async def _diagnosis(fleet: Fleet, plan: Plan, records: Records, patience: float) -> Diagnosis:
    """Read all logs, judge, and look on the hosts for what confirms it."""
    rules = diagnosis_rules()
    matcher = Matcher(rules)
    readings: list[Reading] = []
    if not fleet.clock_offsets:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(fleet.compare_clocks(), patience)

    async def of_host(host: str) -> None:
        session = fleet.sessions[host]
        recorded = {each.id: each for each in records.hosts[host].processes} if host in records.hosts else {}
        for process in plan.on_host(host):
            try:
                log = await process_log(session, process, recorded.get(process.id), fleet.clock_offsets.get(host, 0.0))
            except (NodeError, LostHostError):
                return
            if log is not None:
                readings.append(read(log, matcher))

    async def in_time(host: str) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(of_host(host), patience)

    await together(*(in_time(host.host) for host in plan.hosts if fleet.has(host.host)))
    order = {process.id: number for number, process in enumerate(plan.processes)}
    readings.sort(key=lambda reading: order[reading.log.process])
    diagnosis = judge(readings, rules)
    kernels = await kernel_logs(fleet, diagnosis, records)
    if kernels:
        diagnosis = judge([*readings, *(read(log, matcher) for log in kernels)], rules)
    return await confirmed(fleet, diagnosis)


async def process_log(
    session: NodeSession, process: Process, record: RecordedProcess | None, ahead: float = 0.0
) -> ProcessLog | None:
    """Read the begin and the end of the last run in one log, 1 MiB of each; None where there is none.

    What was written after we told it to end is not read: that is how an engine ends, and no fault.

    Args:
        session: of its host.
        process: as planned.
        record: as started, None where it was taken down.
        ahead: seconds by which the clock of its host is ahead of ours.
    """
    question = {"run_dir": session.host.run_dir, "processes": [{"id": process.id, "log": process.log}]}
    begin = (await session.call("last_run", {**question, "which": "begin"}))["logs"].get(process.id)
    if begin is None or (record is None and not begin["lines"]):
        return None
    first = begin["first"]
    lines = [(first and first + number, line) for number, line in enumerate(begin["lines"])]
    if begin["size"] > ONCE:
        # What lies between is not read, and nobody counts its lines: those of the end have no number.
        end = (await session.call("last_run", {**question, "which": "end"}))["logs"].get(process.id, begin)
        lines += [(0, line) for line in end["lines"]]
    stopped = None if begin["asked"] is None else begin["asked"] - ahead
    ended = None if stopped is not None else record.exit if record else begin["exit"]
    return ProcessLog(
        process=process.id,
        lines=lines,
        path=begin["path"],
        host=process.host,
        role=process.role,
        unit=process.unit,
        alive=True if stopped is not None else record.alive if record else None,
        exit=Exit(ended.get("code"), ended.get("signal")) if ended else None,
        listens={name: port for name, port in process.listens.items() if port is not None},
        ahead=ahead,
        stopped=stopped,
    )
