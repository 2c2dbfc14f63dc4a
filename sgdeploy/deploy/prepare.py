"""Before anything is started: facts and preflight, the hosts' own records, and the files they need."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Collection, Mapping
from typing import Any

from sgdeploy import parcels
from sgdeploy.deploy.events import HostState, Note, Tell
from sgdeploy.deploy.fleet import Answers, Fleet
from sgdeploy.deploy.records import Records
from sgdeploy.deploy.task import Task
from sgdeploy.errors import HostFault, PreflightError, RemoteError, UnsetSecretError
from sgdeploy.facts.model import HostFacts
from sgdeploy.facts.parse import parse
from sgdeploy.facts.preflight import check
from sgdeploy.facts.wanted import gather_request, ports_request
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.remote.base import Json, LostHostError
from sgdeploy.render.scripts import process_script
from sgdeploy.words import plural

NOTHING_CHANGED = "nothing was changed on any host"


def require(answers: Answers, doing: str, hint: str | None = NOTHING_CHANGED) -> None:
    """Let a command go on only if every host obeyed.

    Raises:
        RemoteError: a host was lost on the way.
        PreflightError: a host was reached and refused.
    """
    if not answers.refusals:
        return
    lost = any(isinstance(refusal, LostHostError) for refusal in answers.refusals.values())
    kind = RemoteError if lost else PreflightError
    count = len(answers.refusals)
    raise kind(f"{doing} failed on {plural(count, 'host')}", answers.faults, hint=hint)


GIVEN_BACK = frozenset({"hugepages-tight", "shm-small"})
"""Findings about memory that is free now: where something ends before the start, it is no measure."""

CLOSING = 5.0
"""Seconds for a port whose process nobody can name: one that has just ended has its sockets closed a moment later."""
LOOK = 0.5
"""Seconds between two looks at such ports."""


async def preflight(fleet: Fleet, plan: Plan, tell: Tell, leaving: Mapping[str, Collection[int]]) -> None:
    """Look at every host and hold it against the plan; warnings are told, errors end the command.

    Args:
        fleet: the open hosts.
        plan: what is to be started.
        tell: hears warnings.
        leaving: host → pids of what is stopped before the start: what they hold is free by then.

    Raises:
        PreflightError: with every error of every host.
        RemoteError: a host stopped answering.
    """
    gathered = await fleet.ask("gather", lambda host: gather_request(plan, host), limit=60.0)
    require(gathered, "reading the facts")
    facts = _facts(fleet, gathered)
    listening = await _strangers(fleet, plan, leaving)
    found = check(plan, facts, listening)
    findings = [each for each in found if not (each.host in leaving and each.code in GIVEN_BACK)]
    doubts: dict[tuple[str, str | None], list[str]] = {}
    for finding in findings:
        if finding.level == "warning":
            doubts.setdefault((finding.message, finding.hint), []).append(finding.host)
    for (message, hint), doubtful in doubts.items():
        tell(Note(message, "warning", tuple(doubtful), hint))
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        hosts, kinds = {finding.host for finding in errors}, {finding.message for finding in errors}
        raise PreflightError(
            f"{plural(len(kinds), 'problem')} on {len(hosts)} of {plural(len(plan.hosts), 'host')}",
            [HostFault(finding.host, finding.message, finding.hint) for finding in errors],
            hint=NOTHING_CHANGED,
        )
    for name in facts:
        tell(HostState(name, "checked"))


async def _strangers(
    fleet: Fleet, plan: Plan, leaving: Mapping[str, Collection[int]]
) -> dict[str, list[Mapping[str, Any]]]:
    """Give who listens on planned ports of each host and does not leave, not even within a moment."""
    deadline = time.monotonic() + CLOSING
    hosts = [host.host for host in plan.hosts if fleet.has(host.host)]
    found: dict[str, list[Mapping[str, Any]]] = {}
    while True:
        ports = await fleet.ask("ports", lambda host: {"ports": ports_request(plan, host)}, hosts=hosts)
        require(ports, "looking for taken ports")
        for name, result in ports.results.items():
            found[name] = [row for row in result["listening"] if row.get("pid") not in leaving.get(name, ())]
        hosts = [name for name in hosts if any(row.get("pid") is None for row in found.get(name, ()))]
        if not hosts or time.monotonic() >= deadline:
            return found
        await asyncio.sleep(LOOK)


def _facts(fleet: Fleet, gathered: Answers) -> dict[str, HostFacts]:
    facts: dict[str, HostFacts] = {}
    odd: list[HostFault] = []
    for name, result in gathered.results.items():
        offset = fleet.clock_offsets.get(name)
        try:
            facts[name] = parse(name, dict(fleet.sessions[name].hello), result, clock_offset=offset)
        except (ValueError, LookupError, TypeError) as error:
            odd.append(HostFault(name, f"what it says of itself cannot be understood: {error}"))
    if odd:
        message = f"the facts of {plural(len(odd), 'host')} cannot be read"
        raise PreflightError(message, odd, hint=f"{NOTHING_CHANGED}; compare /proc and /sys there with another host")
    return facts


async def clear_stale(fleet: Fleet, records: Records, task: Task, tell: Tell) -> None:
    """Put away what an earlier run left on record although it does not live any more (a reboot, a crash).

    Wherever it is: an instance may start on other hosts than those on which it failed.

    Raises:
        PreflightError: hugepages could not be given back, or records not removed.
    """
    parts = task.stale(records)
    whole = [name for name, part in parts.items() if part.whole]
    if whole:
        tell(Note("records of an earlier run are put away; none of its processes lives", hosts=tuple(whole)))
    doing = "putting records of an earlier run away"
    restore = await fleet.ask("restore", lambda h: {"run_dir": h.run_dir, "sysfs_root": h.sysfs_root}, hosts=whole)
    require(restore, "giving hugepages of an earlier run back", "look at the hosts named above")
    require(await fleet.ask("clear", lambda h: {"run_dir": h.run_dir}, hosts=whole), doing)
    ids = {name: [*part.ids] for name, part in parts.items() if not part.whole}
    require(await fleet.ask("clear", lambda h: {"run_dir": h.run_dir, "ids": ids[h.host]}, hosts=ids), doing)


async def push(fleet: Fleet, task: Task) -> Answers:
    """Write run folders, the plan, scripts and files where a task needs them, and give what each host said."""
    plan = task.plan
    shipped = {file.source: _shipped(file.source) for host in plan.hosts for file in host.files}
    body = plan.to_json()
    scripts: dict[str, dict[str, str]] = {host.host: {} for host in plan.hosts}
    for process in task.processes:
        scripts[process.host][process.key] = process_script(plan, process)

    def arguments(host: PlanHost) -> Json:
        return {
            "run_dir": host.run_dir,
            "plan": body,
            "scripts": scripts[host.host],
            "files": [{"path": f.path, "mode": f.mode, "base64": shipped[f.source]} for f in host.files],
        }

    return await fleet.ask("prepare", arguments, hosts=task.written, limit=120.0)


def _shipped(source: str) -> str:
    return base64.b64encode(parcels.shipped(source).encode()).decode("ascii")


def check_secrets(names: Collection[str], secrets: Mapping[str, str]) -> None:
    """Make sure that secrets have values before any host is touched.

    Raises:
        UnsetSecretError: names every variable that is missing or empty.
    """
    missing = [name for name in names if not secrets.get(name)]
    if missing:
        raise UnsetSecretError(
            f"{plural(len(missing), 'secret')} without a value",
            [
                HostFault("this machine", f"the environment variable {name} is not set", f"export {name}=…")
                for name in missing
            ],
            hint=NOTHING_CHANGED,
        )
