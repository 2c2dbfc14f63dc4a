"""Errors on the screen: what and where, why with the evidence, what to do next; and the same as JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict
from typing import Any

from rich.text import Text

from sgdeploy.console.caret import problem_json, problem_lines, summary
from sgdeploy.console.lines import evidence_lines, failure_lines, hint_lines, short
from sgdeploy.console.text import clean, grid
from sgdeploy.errors import (
    CancelledRunError,
    HostFault,
    HostsError,
    LeftoverError,
    ProcessFault,
    ProfileError,
    SgdeployError,
    StartupError,
    WaitTimeoutError,
)
from sgdeploy.remote.base import LostHostError, NodeError

_LISTS = ("faults", "missing", "leftovers")


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
    return Text.assemble(("error: ", "bold red"), host, clean(str(error)))


def _details(error: SgdeployError, shown: Collection[str]) -> Iterable[Text]:
    match error:
        case StartupError(faults=faults):
            for process in faults:
                yield from _process(process, full=process.process not in shown)
        case WaitTimeoutError(missing=missing):
            yield from grid(
                [(clean(m.host), short(m.process), clean(m.phase), clean(m.line)) for m in missing], indent=2
            )
        case LeftoverError(leftovers=leftovers, faults=hosts):
            yield from (Text(f"  {clean(left.host)}: {clean(left.what)}") for left in leftovers)
            yield from _hosts(hosts)
        case HostsError(faults=hosts):
            yield from _hosts(hosts)
        case _:
            pass


def _hosts(faults: Iterable[HostFault]) -> Iterable[Text]:
    for fault in faults:
        yield Text.assemble("  ", (f"{clean(fault.host)}: ", "bold"), clean(fault.reason))
        yield from hint_lines(fault.hint, indent=4)


def _process(fault: ProcessFault, *, full: bool) -> Iterable[Text]:
    lines = failure_lines(fault.process, fault.host, fault.reason, fault.seconds_to_report)
    if full:
        lines += evidence_lines(fault.lines, fault.log)
    return [Text.assemble("  ", line) for line in lines]


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
    for name in _LISTS:
        if hasattr(error, name):
            body[name] = [asdict(item) for item in getattr(error, name)]
    return body
