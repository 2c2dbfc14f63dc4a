"""The half of the console that writes data: what a command was asked for, on stdout; and the only places that write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias, cast

from rich.console import Console as Terminal
from rich.text import Text

from sgdeploy.console.findings import diagnosis_lines
from sgdeploy.console.logs import LogPrinter
from sgdeploy.console.plans import host_lines, plan_lines
from sgdeploy.console.splits import split_lines
from sgdeploy.console.statuses import overview_lines, status_lines
from sgdeploy.console.stream import Secrets, Sink
from sgdeploy.console.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sgdeploy.deploy.events import DeploymentStatus
    from sgdeploy.deploy.hostlogs import Show
    from sgdeploy.deploy.locking import LockState
    from sgdeploy.diagnose.model import Diagnosis
    from sgdeploy.plan.model import Plan, Process
    from sgdeploy.plan.part import Part
    from sgdeploy.weights.cut.report import Report

Mode: TypeAlias = "Literal['live', 'plain', 'json']"


class Data:
    """Writes plans, statuses, findings, logs and lines: for people, or as JSON values for programs.

    Attributes:
        mode: for whom.
        secrets: values that are hidden in all that is written.
    """

    def __init__(
        self, mode: Mode, *, out: TextIO, err: TextIO, color: bool | None, secrets: Secrets | None = None
    ) -> None:
        """Take the two streams; the arguments are those of ``Console``."""
        self.mode: Mode = mode
        self.secrets = secrets or Secrets()
        self._sink = Sink(out, self.secrets)
        self._out = _terminal(self._sink, color)
        self._err = _terminal(Sink(err, self.secrets), color)

    def plan(self, plan: Plan) -> None:
        """Write a plan: a summary, or its public JSON object."""
        self.show(plan.to_json(), plan_lines(plan))

    def part(self, plan: Plan, part: Part) -> None:
        """Write what a part of a plan gets, host by host."""
        hosts = [host.model_dump(mode="json") for host in part.hosts(plan)]
        processes = [process.model_dump(mode="json") for process in part.processes(plan)]
        self.show({"hosts": hosts, "processes": processes}, host_lines(plan, part))

    def show(self, value: Any, lines: Iterable[Text]) -> None:
        """Write data: lines for people, or one JSON value for programs."""
        if self.mode == "json":
            self.json(value)
        else:
            self._print(self._out, lines)

    def status(self, status: DeploymentStatus) -> None:
        """Write what is known of one deployment."""
        self.show(status.to_json(), status_lines(status, width=_width(self._out)))

    def diagnosis(self, found: Diagnosis, unreachable: dict[str, str]) -> None:
        """Write what a diagnosis found."""
        self.show({**found.to_json(), "unreachable": unreachable}, diagnosis_lines(found, unreachable))

    def overview(self, statuses: Sequence[DeploymentStatus]) -> None:
        """Write one row per deployment; in JSON mode one object per line."""
        if self.mode == "json":
            for status in statuses:
                self._json(status.to_json())
        else:
            self._print(self._out, overview_lines(statuses, width=_width(self._out)))

    def split_plan(self, report: Report, free: int | None) -> None:
        """Write the plan of a split; ``free`` is what its target's file system has left, where it is known."""
        if self.mode == "json":
            self.json({**report.to_json(), "free": free})
        else:
            self._print(self._out, split_lines(report, free))

    def log_lines(self, processes: Sequence[Process]) -> Show:
        """Give what writes lines of logs of these processes, as fast as they are read; see ``LogPrinter``."""
        printer = LogPrinter(self._sink, processes, color=self._out.is_terminal and not self._out.no_color)
        return printer.objects if self.mode == "json" else printer.text

    def lock(self, state: LockState) -> None:
        """Write how a lock stands."""
        held = f"held on {state.host} by {state.holder}" if state.owner is not None else f"free (host {state.host})"
        self.line(f"{state.name}: {held}; {state.verdict}", **state.to_json())

    def line(self, text: str, **fields: Any) -> None:
        """Write one line of data; in JSON mode its fields instead."""
        if self.mode == "json":
            self._json(fields)
        else:
            self._print(self._out, [Text(clean(text))])

    def json(self, value: Any, *, for_people: bool = False) -> None:
        """Write one JSON value, indented for people and on a terminal, and on one line for a program."""
        self._json(value, indent=2 if for_people or self._out.is_terminal else None)

    # The only three places where anything is written

    def _json(self, value: Any, indent: int | None = None) -> None:
        # ASCII escapes keep terminal controls, line separators and half surrogates harmless and the line whole.
        self._out.file.write(json.dumps(value, indent=indent, ensure_ascii=True) + "\n")
        self._out.file.flush()

    @staticmethod
    def _print(terminal: Terminal, lines: Iterable[Text]) -> None:
        for line in lines:
            terminal.print(line, soft_wrap=True)
        terminal.file.flush()


def _terminal(sink: Sink, color: bool | None) -> Terminal:
    return Terminal(
        file=cast("TextIO", sink),
        markup=False,
        highlight=False,
        emoji=False,
        no_color=None if color is None else not color,
        force_terminal=True if color else None,
    )


def _width(terminal: Terminal) -> int | None:
    return terminal.width if terminal.is_terminal else None
