"""Looking on hosts for what a log can only suggest: who holds a port, is a path there, whom did the kernel kill."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.records import Records
from sgdeploy.diagnose.model import Diagnosis, Finding, ProcessLog
from sgdeploy.remote.base import Json, LostHostError, NodeError

_KILLED = {"killed-9", "died-without-a-word", "child-died", "ended-unexplained"}
_PORT = re.compile(r"\bport (\d+)\b")
_PATH = re.compile(r"\bpath (/\S+)")


async def kernel_logs(fleet: Fleet, diagnosis: Diagnosis, records: Records) -> list[ProcessLog]:
    """Ask the kernel on hosts where a process may have been killed for want of memory; [] where it may not be asked."""
    hosts = {each.host for each in (*diagnosis.findings, *diagnosis.consequences) if each.rule in _KILLED}
    command = ["dmesg", "--time-format", "iso"]
    answers = await fleet.ask("gather", lambda _: {"commands": {"dmesg": command}}, hosts=hosts)
    logs = []
    for host, result in answers.results.items():
        recorded = records.hosts[host].processes if host in records.hosts else ()
        ages = [each.seconds for each in recorded if each.seconds is not None]
        text = result.get("commands", {}).get("dmesg", {}).get("out", "")
        lines = _recent(text, max(ages, default=0.0), fleet.sessions[host].hello["time"])
        if lines:
            logs.append(ProcessLog(f"kernel of {host}", lines, path=f"{host}:dmesg", host=host, role="kernel"))
    return logs


def _recent(text: str, age: float, now: float) -> list[tuple[int, str]]:
    """Keep what the kernel wrote since the oldest process was started; earlier kills have nothing to do with it."""
    kept = []
    for number, line in enumerate(text.splitlines(), 1):
        stamp = line.partition(" ")[0].replace(",", ".")
        try:
            at = datetime.fromisoformat(stamp).timestamp()
        except ValueError:
            continue
        if at >= now - age - 1.0:
            kept.append((number, line))
    return kept


async def confirmed(fleet: Fleet, diagnosis: Diagnosis) -> Diagnosis:
    """Add to causes what their hosts say now."""
    findings = tuple([await _confirm(fleet, each) for each in diagnosis.findings])
    return replace(diagnosis, findings=findings)


async def _confirm(fleet: Fleet, found: Finding) -> Finding:
    if not fleet.has(found.host):
        return found
    session = fleet.sessions[found.host]
    try:
        if found.rule in {"port-taken", "http-port"} and (match := _PORT.search(found.cause)):
            asked = {"ports": [{"address": "::", "port": int(match[1])}]}  # overlaps every address
            return _holder(found, await session.call("ports", asked))
        if found.rule == "model-path-missing" and (match := _PATH.search(found.cause)):
            path = match[1].rstrip(",")
            return _there(found, path, (await session.call("gather", {"stat": [path]}))["stat"].get(path, {}))
    except (NodeError, LostHostError):
        pass
    return found


def _holder(found: Finding, result: Json) -> Finding:
    held = next(iter(result["listening"]), None)
    if held is None:
        return replace(found, cause=f"{found.cause}; it is free again now")
    who = f"pid {held['pid']}, {held['command']}" if held["pid"] is not None else "a process of another user"
    return replace(found, cause=f"{found.cause}; held now by {who}")


def _there(found: Finding, path: str, stat: Mapping[str, object]) -> Finding:
    if not stat.get("exists"):
        return replace(found, cause=f"{found.cause}; looked: there is no {path} on {found.host}")
    return replace(found, cause=f"{found.cause}; looked: {path} is there now ({stat.get('kind')})")
