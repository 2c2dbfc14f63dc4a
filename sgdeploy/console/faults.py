"""Errors on the screen: what and where, why with the evidence, what to do next; and the same as JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from sgdeploy.console.caret import problem_json, problem_lines, summary
from sgdeploy.console.findings import cause_lines, said
from sgdeploy.console.lines import evidence_lines, failure_lines, hint_lines, short
from sgdeploy.console.text import clean, grid, unstamped
from sgdeploy.deploy.events import ProcessFailed
from sgdeploy.errors import (
    CancelledRunError,
    Cause,
    HostFault,
    HostsError,
    LeftoverError,
    Missing,
    ProcessFault,
    ProfileError,
    SgdeployError,
    StartupError,
    WaitTimeoutError,
)
from sgdeploy.remote.base import LostHostError, NodeError
from sgdeploy.words import name_list

_MISSING = 10
"""So many ranks that are not ready are named one by one, those that stand still the longest first."""

_TELLING = re.compile(r"\b\w*(Error|Exception)\b|\berror:", re.ASCII)
_LISTS = ("faults", "missing", "leftovers")


FULL = 3
"""So many failures are shown with their last log lines; of 256 ranks that fall together one is the cause."""


def in_full(told: int, *, symptom: bool) -> bool:
    """Tell whether a failure is shown with its log: the first, and few others that may be causes as well.

    Args:
        told: how many other ways to fail came before it, the most likely cause first.
        symptom: whether its log blames another process.
    """
    return told == 0 or (told < FULL and not symptom)


def error_lines(error: SgdeployError, shown: Collection[str] = ()) -> list[Text]:
    """Give the lines of an error of the family.

    Args:
        error: what was raised.
        shown: ids of processes whose failure, log lines included, stands on the screen already.
    """
    if isinstance(error, ProfileError):
        lines = [line for problem in error.problems for line in problem_lines(problem)]
        return [*lines, Text(summary(error.problems), "bold")]
    return [_headline(error), *_details(error, shown), *hint_lines(error.hint, indent=0)]


def _headline(error: SgdeployError) -> Text:
    if isinstance(error, CancelledRunError):
        return Text(clean(str(error)), "bold yellow")
    # The message of a node that was lost names its host already; one that said no does not.
    host = f"{clean(error.host)}: " if isinstance(error, NodeError) else ""
    return Text.assemble(("error: ", "bold red"), host, clean(_message(error)))


def _message(error: SgdeployError) -> str:
    """Give what went wrong in one sentence: its cause, where that is known of one of those that failed."""
    cause = next(iter(error.causes), None) if isinstance(error, StartupError) else None
    if cause is None or not isinstance(error, StartupError):
        return str(error)
    others = [fault for fault in error.faults if fault.process != cause.process]
    if len(others) == len(error.faults):
        return str(error)
    more = f" (and {len(others)} more)" if others else ""
    return f"{cause.process.partition('/')[0]}: {short(cause.process)}{more} failed: {said(cause)}"


def _details(error: SgdeployError, shown: Collection[str]) -> Iterable[Text]:
    match error:
        case StartupError(faults=faults):
            groups = _groups(faults)
            yield from _processes(groups, shown)
            yield from _causes(error.causes, [fault.process for group in _in_full(groups) for fault in group])
        case WaitTimeoutError(missing=missing):
            rows = [(clean(m.host), short(m.process), clean(m.phase), clean(m.line)) for m in missing[:_MISSING]]
            yield from grid(rows, indent=2)
            yield from _also_missing(missing[_MISSING:])
            yield from _causes(error.causes, ())
        case LeftoverError(leftovers=leftovers, faults=hosts):
            yield from (Text(f"  {clean(left.host)}: {clean(left.what)}") for left in leftovers)
            yield from _hosts(hosts)
        case HostsError(faults=hosts):
            yield from _hosts(hosts)
        case _:
            pass


def _also_missing(missing: Iterable[Missing]) -> Iterable[Text]:
    phases: dict[str, list[str]] = {}
    for one in missing:
        phases.setdefault(one.phase, []).append(one.host)
    for phase, hosts in phases.items():
        yield Text(f"  and {len(hosts)} more on {_names(hosts)}: {clean(phase)}")


def _hosts(faults: Iterable[HostFault]) -> Iterable[Text]:
    """Give each problem once, with all hosts that have it; one that names its own host counts as the same on each."""
    groups: dict[tuple[str, str], list[HostFault]] = {}
    for fault in faults:
        problem = (_anywhere(fault.reason, fault.host), _anywhere(fault.hint or "", fault.host))
        groups.setdefault(problem, []).append(fault)
    for group in groups.values():
        first = group[0]
        said = {fault.host: (fault.reason, fault.hint) == (first.reason, first.hint) for fault in group}
        yield Text.assemble("  ", (f"{_names(h for h in said if said[h])}: ", "bold"), clean(first.reason))
        yield from hint_lines(first.hint, indent=4)
        if others := _names(host for host in said if not said[host]):
            yield Text(f"    likewise: {others}")


def _names(hosts: Iterable[str]) -> str:
    return clean(name_list(hosts))


def _anywhere(text: str, host: str) -> str:
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "\0", text)


def _processes(groups: Sequence[list[ProcessFault]], shown: Collection[str]) -> Iterable[Text]:
    """Name what is worth a look, with its log unless that stands on the screen; of the others, how many and where."""
    full = _in_full(groups)
    for group in full:
        lines = failure_lines(group)
        told = any(fault.process in shown for fault in group)
        causes = {(fault.cause.rule, said(fault.cause)): fault.cause for fault in group if fault.cause is not None}
        if not causes or not told:
            lines += _gist(group[0]) if told else evidence_lines(group[0].lines, group[0].log)
        lines += [line for cause in causes.values() for line in cause_lines(cause)]
        yield from (Text.assemble("  ", line) for line in lines)
    rest: dict[tuple[str, bool], list[str]] = {}
    for fault in (fault for group in groups if group not in full for fault in group):
        rest.setdefault((fault.reason, fault.symptom), []).append(fault.host)
    for (reason, symptom), hosts in rest.items():
        why = ", having lost a peer" if symptom else ""
        yield Text(f"  {len(hosts)} more failed on {_names(hosts)}: {clean(reason)}{why}")


def _groups(faults: Iterable[ProcessFault]) -> list[list[ProcessFault]]:
    """Put what failed in the same way together, in the order of the first of each."""
    groups: dict[tuple[str, bool, str], list[ProcessFault]] = {}
    for fault in faults:
        groups.setdefault(manner(fault), []).append(fault)
    return list(groups.values())


def _in_full(groups: Sequence[list[ProcessFault]]) -> list[list[ProcessFault]]:
    return [group for number, group in enumerate(groups) if in_full(number, symptom=group[0].symptom)]


def _causes(causes: Sequence[Cause], told: Collection[str]) -> Iterable[Text]:
    """Give the causes that stand below no process yet, each with the process at fault."""
    for cause in causes:
        if cause.process not in told:
            host = f" on {clean(cause.host)}" if cause.host else ""
            yield Text.assemble("  ", (short(cause.process), "bold"), host)
            yield from cause_lines(cause, indent=4)


def manner(fault: ProcessFault | ProcessFailed) -> tuple[str, bool, str]:
    """Give what is the same for ranks that failed in the same way: how they ended, and the line that tells most."""
    return fault.reason, fault.symptom, unstamped(_telling(fault))


def _telling(fault: ProcessFault | ProcessFailed) -> str:
    """Give the one log line that tells most: the last that names an error, else the last; "" where there is none."""
    telling = [line for line in fault.lines if _TELLING.search(line)] or list(fault.lines)
    return telling[-1] if telling else ""


def _gist(fault: ProcessFault) -> list[Text]:
    return evidence_lines((line,) if (line := _telling(fault)) else (), "")


def error_json(error: SgdeployError) -> dict[str, Any]:
    """Give an error as plain JSON values: kind, exit code, message, hint, and its list of details."""
    body: dict[str, Any] = {
        "event": "error",
        "kind": type(error).__name__,
        "exit_code": error.exit_code,
        "message": str(error),
        "hint": error.hint,
    }
    if isinstance(error, ProfileError):
        body["problems"] = [problem_json(problem) for problem in error.problems]
    if isinstance(error, (NodeError, LostHostError)):
        body["faults"] = [asdict(error.fault)]
    if isinstance(error, (StartupError, WaitTimeoutError)):
        body["causes"] = [asdict(cause) for cause in error.causes]
    for name in _LISTS:
        if hasattr(error, name):
            body[name] = [asdict(item) for item in getattr(error, name)]
    return body
