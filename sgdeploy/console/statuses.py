"""What `status` found, as a table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from sgdeploy.console.board import STATES
from sgdeploy.console.findings import cause_lines
from sgdeploy.console.live import STYLES, counted
from sgdeploy.console.table import Column, table
from sgdeploy.console.text import below, clean, duration, grid, untimed
from sgdeploy.words import name_list, plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sgdeploy.deploy.events import DeploymentStatus, ProcessStatus
    from sgdeploy.diagnose.advice import Advice

_PROCESS = (
    Column("HOST"),
    Column("RANK"),
    Column("STATE"),
    Column("PHASE", least=14),
    Column("AGE", spare=2),
    Column("PID", spare=4),
    Column("HTTP", spare=3),
    Column("LAST LOG LINE", least=16, spare=5),
)
_DEPLOYMENT = (
    Column("DEPLOYMENT"),
    Column("STATE"),
    Column("PROCESSES", spare=1),
    Column("FRONT DOOR", spare=2),
    Column("REMARKS", least=16),
)
_STYLE = {"ready": "bold green", "starting": "bold cyan", "degraded": "bold red", "down": "bold"}


def status_lines(status: DeploymentStatus, *, width: int | None) -> list[Text]:
    """Show one deployment: the verdict, what disturbs it, and a row per process."""
    counts = Counter(process.state for process in status.processes)
    lines = [
        Text.assemble(
            (clean(status.name), "bold"),
            " is ",
            (status.state, _STYLE[status.state]),
            ": " if counts else "",
            counted((state, counts[state]) for state in reversed(STATES) if counts[state]),
        )
    ]
    if status.state != "down":
        facts = [("front door", clean(status.front_door)), ("digest", clean(status.digest))]
        lines += grid(facts, width=width, indent=2)
    lines += _disturbances(status)
    for cause in status.causes:
        lines += [Text.assemble("  ", (below(cause.process, cause.host), "bold"), f" on {clean(cause.host)}")]
        lines += cause_lines(cause, indent=4)
    if status.processes and status.state != "down":
        lines += [Text(), *table(_PROCESS, map(_row, status.processes), width=width)]
    return lines + _advice(status.advice)


def _advice(found: Iterable[Advice]) -> list[Text]:
    """Say what figures mean; what is the same on many servers is told once."""
    groups: dict[tuple[str, str], list[Advice]] = {}
    for each in found:
        groups.setdefault((each.meaning, each.setting), []).append(each)
    lines = []
    for (meaning, setting), same in groups.items():
        names = clean(name_list(each.process for each in same))
        lines += [
            Text.assemble(("advice: ", "cyan"), (names, "bold"), f": {clean(same[0].figure)}"),
            Text(f"  {clean(meaning)}"),
            Text.assemble("  ", ("change: ", "cyan"), clean(setting)),
        ]
    return [Text(), *lines] if lines else []


def _disturbances(status: DeploymentStatus) -> list[Text]:
    warning = ("warning: ", "bold yellow")
    lines = [Text.assemble("  ", warning, clean(sentence)) for sentence in status.drift]
    if status.locked_by:
        lines.append(Text.assemble("  ", ("note: ", "cyan"), f"{clean(status.locked_by)} is at work on it now"))
    lines += [
        Text.assemble("  ", warning, f"{clean(host)} cannot be asked: {clean(reason)}")
        for host, reason in status.unreachable.items()
    ]
    return lines


def _row(row: ProcessStatus) -> list[Text]:
    return [
        Text(clean(row.host)),
        Text(clean(below(row.process, row.host))),
        Text(row.state, STYLES[row.state]),
        Text(clean(row.reason or row.phase)),
        Text("" if row.seconds is None else duration(row.seconds)),
        Text("" if row.pid is None else str(row.pid)),
        Text(clean(row.http)),
        Text(clean(untimed(row.line)), "dim"),
    ]


def overview_lines(statuses: Iterable[DeploymentStatus], *, width: int | None) -> list[Text]:
    """Show many deployments, one row each."""
    return table(_DEPLOYMENT, map(_overview_row, statuses), width=width)


def _overview_row(status: DeploymentStatus) -> list[Text]:
    ready = sum(process.state == "ready" for process in status.processes)
    remarks = []
    if status.unreachable:
        remarks.append(f"{plural(len(status.unreachable), 'host')} unreachable")
    if status.drift:
        remarks.append("differs from its profile")
    if status.locked_by:
        remarks.append(f"{clean(status.locked_by)} is at work on it")
    return [
        Text(clean(status.name)),
        Text(status.state, _STYLE[status.state]),
        Text(f"{ready} of {len(status.processes)} ready" if status.state != "down" else ""),
        Text(clean(status.front_door) if status.state != "down" else ""),
        Text(", ".join(remarks)),
    ]
