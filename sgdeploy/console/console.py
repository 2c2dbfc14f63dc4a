"""The one object that prints. Made in ``cli``, handed down as ``tell``; data to stdout, all else to stderr.

What a command gives as data is written by its other half, ``data.Data``.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from sgdeploy.console.caret import problem_json, problem_lines, summary
from sgdeploy.console.data import Data, Mode
from sgdeploy.console.faults import error_json, error_lines, in_full, manner
from sgdeploy.console.lines import event_lines
from sgdeploy.console.live import LiveBoard, Picture, RankPicture
from sgdeploy.console.splits import Pace, SplitPicture
from sgdeploy.console.stream import Secrets, UnwrittenError
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
    from collections.abc import Callable, Iterator, Sequence

    from sgdeploy.plan.model import Plan
    from sgdeploy.problems import Problem

_ON_BOARD = (Step, HostState, RankState, Heartbeat, SplitProgress)
"""Events that the live table itself shows; the others are printed above it or below."""

_BELOW_BOARD = (Completion, Outcome)
"""What a command ends with stands below the last state of the table."""

_WHEN_QUIET = (ProcessFailed, Outcome)


class Console(Data):
    """Shows events, problems, errors and data in one of three modes.

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
        secrets: Secrets | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make a console.

        Args:
            mode: how to show what happens.
            out: where data goes.
            err: where everything else goes.
            quiet: show failures, warnings and the outcome only.
            color: True or False to insist, None for what the terminal and ``NO_COLOR`` say.
            secrets: what must not be seen; may learn more later.
            clock: seconds since the epoch.
        """
        super().__init__(mode, out=out, err=err, color=color, secrets=secrets)
        self._quiet = quiet
        self._clock = clock
        self._failures_told: set[tuple[str, bool, str]] = set()
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
        shows = manner(event) not in self._failures_told and in_full(len(self._failures_told), symptom=event.symptom)
        self._failures_told.add(manner(event))
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
        """Show problems as a compiler does, and how many; in JSON mode as objects, and errors on stderr as well."""
        if self.mode != "json":
            self.advise(problems)
            return
        for problem in problems:
            self._json({"event": "problem", **problem_json(problem)})
        self.advise([problem for problem in problems if problem.level == "error"])

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
