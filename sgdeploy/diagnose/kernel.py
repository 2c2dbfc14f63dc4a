"""The kernel's log beside those of processes: whom the out-of-memory killer took."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sgdeploy.diagnose.model import Finding
from sgdeploy.diagnose.reading import Hit, Reading
from sgdeploy.diagnose.words import finding

_OURS = re.compile(r"sglang|python|sched|detoken|pt_main|torch", re.IGNORECASE)
_KILLED = {"killed-9", "died-without-a-word", "child-died", "ended-unexplained"}


def by_the_kernel(readings: Sequence[Reading], found: Sequence[Finding]) -> list[Finding]:
    """Let the kernel's words replace what a log could only guess; kills of strangers become notes."""
    result = list(found)
    for kernel in (each for each in readings if each.kind == "kernel"):
        killed: dict[str, Hit] = {}
        for hit in kernel.hits:
            if hit.rule.id != "oom-kill":
                result.append(finding(kernel, hit))
                continue
            killed[hit.values.get("pid", hit.line)] = hit
        for hit in killed.values():
            result = _taken(kernel, hit, readings, result)
    return result


def _taken(kernel: Reading, hit: Hit, readings: Sequence[Reading], found: list[Finding]) -> list[Finding]:
    target = _target(kernel, readings, found)
    if target is None:
        told = finding(kernel, hit)
        ours = _OURS.search(hit.values.get("victim", ""))
        return [*found, told if ours else replace(told, level="note")]
    guessed = [each for each in found if each.process == target.log.process and each.rule in _KILLED]
    guessed.sort(key=lambda each: each.rule != "killed-9")
    moment = next((one.moment for one in target.hits if one.rule.id == "killed-9"), target.moment)
    at = guessed[0].at if guessed else target.last_at
    told = finding(target, replace(hit, moment=moment, at=at, rank=""))
    shown = (
        replace(told.evidence[0], path=kernel.log.path or kernel.log.process),
        *(each.evidence[0] for each in guessed[:1]),
    )
    told = replace(told, evidence=shown)
    return [told, *(each for each in found if each not in guessed)]


def _target(kernel: Reading, readings: Sequence[Reading], found: Sequence[Finding]) -> Reading | None:
    """Find the process that was hit: one on the same host of which it is only known that it was killed."""
    suspects = {each.process: each for each in found if each.rule in _KILLED}
    order = sorted(suspects, key=lambda name: suspects[name].rule != "killed-9")
    hosts = {"", kernel.log.host}
    for name in order:
        reading = next(each for each in readings if each.log.process == name)
        if not kernel.log.host or reading.log.host in hosts:
            return reading
    return None
