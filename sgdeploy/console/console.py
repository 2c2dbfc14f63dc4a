"""The one object that prints. Made in ``cli``, handed down as ``tell``; data to stdout, all else to stderr."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias, cast

from rich.console import Console as Terminal
from rich.text import Text

from sgdeploy.console.caret import problem_json, problem_lines, summary
from sgdeploy.console.faults import error_json, error_lines, in_full
from sgdeploy.console.findings import diagnosis_lines
from sgdeploy.console.lines import event_lines
from sgdeploy.console.live import LiveBoard, Picture, RankPicture
from sgdeploy.console.logs import LogPrinter
from sgdeploy.console.plans import host_lines, plan_lines
from sgdeploy.console.splits import Pace, SplitPicture, split_lines
from sgdeploy.console.statuses import overview_lines, status_lines
from sgdeploy.console.stream import Sink, UnwrittenError
from sgdeploy.console.text import clean
from sgdeploy.deploy.events import (
    Completion,
    Event,
    Heartbeat,
    HostState,
    Outcome,
    ProcessFailed,
    RankState,
    SplitProgress,
    Step,
)
from sgdeploy.errors import SgdeployError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sgdeploy.deploy.events import DeploymentStatus
    from sgdeploy.deploy.hostlogs import Show
    from sgdeploy.deploy.locking import LockState
    from sgdeploy.diagnose.model import Diagnosis
    from sgdeploy.plan.model import Plan, Process
    from sgdeploy.plan.part import Part
    from sgdeploy.problems import Problem
    from sgdeploy.weights.cut.report import Report

Mode: TypeAlias = "Literal['live', 'plain', 'json']"

_ON_BOARD = (Step, HostState, RankState, Heartbeat, SplitProgress)
"""Events that the live table itself shows; the others are printed above it or below."""

_BELOW_BOARD = (Completion, Outcome)
"""What a command ends with stands below the last state of the table."""

_WHEN_QUIET = (ProcessFailed, Outcome)


class Console:
    """Shows events, problems, errors, plans and statuses in one of three modes.

    ``live`` keeps a table of all ranks on stderr while a command runs; ``plain`` writes a line per change; ``json``
    writes one object per line to stdout and nothing but errors to stderr. Text from files, logs and hosts is made
    harmless first (no escape sequences, no markup).
    """

    def __init__(
        self,
        mode: Mode,
        *,
        out: TextIO,
        err: TextIO,
        quiet: bool = False,
        color: bool | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make a console.

        Args:
            mode: how to show what happens.
            out: where data goes.
            err: where everything else goes.
            quiet: show failures, warnings and the outcome only.
            color: True or False to insist, None for what the terminal and ``NO_COLOR`` say.
            clock: seconds since the epoch.
        """
        self.mode: Mode = mode
        self._quiet = quiet
        self._clock = clock
        self._failures_told = 0
        self._sink = Sink(out)
        self._out = _terminal(self._sink, color)
        self._err = _terminal(Sink(err), color)
        self._board = LiveBoard(self._err, clock)
        self._failures_shown: set[str] = set()
        self._pace = Pace()
        self._last: list[Event] = []
        self._unwritten: UnwrittenError | None = None

    # What happens during a command

    def tell(self, event: Event) -> None:
        """Show one event. Where it cannot be written (a full disk), the work on the hosts goes on all the same."""
        with self._work_first():
            self._show(event)

    def _show(self, event: Event) -> None:
        if self.mode == "json":
            kind = event.to_json()
            self._json({"event": kind.pop("event"), "time": round(self._clock(), 3), **kind})
            return
        if isinstance(event, ProcessFailed) and not self._shows(event):
            return
        if self._board.is_open:
            self._board.hear(event)
            if isinstance(event, _ON_BOARD):
                return
            if isinstance(event, _BELOW_BOARD):
                self._last.append(event)
                return
        if isinstance(event, SplitProgress) and not self._pace.due(event, self._clock()):
            return
        if not self._quiet or isinstance(event, _WHEN_QUIET) or getattr(event, "level", "") == "warning":
            self._print(self._err, event_lines(event))

    @contextmanager
    def watching(self, plan: Plan, *, ranks: bool = True) -> Iterator[None]:
        """Keep the live table of a plan on the screen for the body of the ``with``; its last state stays.

        In the other modes, and when quiet, nothing is drawn. The terminal is given back however the body ends.

        Args:
            plan: whose hosts and processes are of interest.
            ranks: whether the processes are, or their hosts alone.
        """
        with self._showing(RankPicture(plan, ranks=ranks)):
            yield

    @contextmanager
    def splitting(self) -> Iterator[None]:
        """Keep the progress of a split on the screen for the body of the ``with``, as ``watching`` does for a plan."""
        with self._showing(SplitPicture()):
            yield

    @contextmanager
    def _showing(self, picture: Picture) -> Iterator[None]:
        if self.mode == "live" and not self._quiet:
            self._board.open(picture)
        try:
            yield
        finally:
            self.close()
        if self._unwritten is not None:
            raise self._unwritten

    @contextmanager
    def _work_first(self) -> Iterator[None]:
        """Keep the first failure to write until the work is over."""
        try:
            yield
        except UnwrittenError as error:
            self._unwritten = self._unwritten or error

    def close(self) -> None:
        """Give the terminal back. For a way out that skips ``watching``'s own end; calling it twice is fine."""
        last, self._last = self._last, []
        with self._work_first():
            self._board.close()
            for event in last:
                self._print(self._err, event_lines(event))

    def _shows(self, event: ProcessFailed) -> bool:
        """Tell whether a failure is shown at once; the others are rows of the table, and the last error counts them."""
        shows = in_full(self._failures_told, symptom=event.symptom)
        self._failures_told += 1
        if shows:
            self._failures_shown.add(event.process)
        elif self._board.is_open:
            self._board.hear(event)
        return shows

    async def ask(self, question: str, answers: int) -> bool:
        """Ask the operator, and wait for a line; only ``y`` and ``yes`` are a yes.

        Args:
            question: in one sentence, without the choices.
            answers: descriptor of the terminal that the line comes from.
        """
        from sgdeploy.console.answers import line_of

        with self._board.hidden():
            self._err.print(Text.assemble((clean(question), "bold"), " [y/N] "), soft_wrap=True, end="")
            self._err.file.flush()
            line = await line_of(answers)
        return line.strip().lower() in {"y", "yes"}

    # What a command has to say

    def say(self, message: str) -> None:
        """Write a sentence for the operator; not in JSON mode, not when quiet."""
        if self.mode != "json" and not self._quiet:
            self._print(self._err, [Text(clean(message))])

    def problems(self, problems: Sequence[Problem]) -> None:
        """Show problems as a compiler does, and how many there are; nothing for none."""
        if not problems:
            return
        if self.mode == "json":
            for problem in problems:
                self._json({"event": "problem", **problem_json(problem)})
            return
        self.advise(problems)

    def advise(self, problems: Sequence[Problem]) -> None:
        """Show problems on stderr in every mode: for commands whose stdout is one JSON object and nothing else."""
        if problems:
            self._print(self._err, [line for problem in problems for line in problem_lines(problem)])
            self._print(self._err, [Text(summary(problems), "bold")])

    def warn(self, note: Event) -> None:
        """Show a warning on stderr in every mode: for commands whose stdout is their own data and nothing else."""
        self._print(self._err, event_lines(note))

    def error(self, error: SgdeployError) -> None:
        """Show an error of the family: on stderr in every mode, and as an object on stdout in JSON mode."""
        self.close()
        if self.mode == "json":
            self._json({**error_json(error), "time": round(self._clock(), 3)})
        self._print(self._err, error_lines(error, self._failures_shown))

    def fault_of_ours(self, message: str, advice: str) -> None:
        """Show that sgdeploy itself failed, and what to do about it."""
        self.close()
        if self.mode == "json":
            self._json({"event": "error", "kind": "InternalError", "exit_code": 70, "message": message, "hint": advice})
        head = Text.assemble(("error: ", "bold red"), f"sgdeploy failed: {clean(message)}")
        self._print(self._err, [head, Text.assemble(("hint: ", "cyan"), clean(advice))])

    # Data

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

    def json(self, value: Any) -> None:
        """Write one JSON value, indented on a terminal and on one line for a program."""
        self._json(value, indent=2 if self._out.is_terminal else None)

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
