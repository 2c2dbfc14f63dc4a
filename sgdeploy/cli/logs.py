"""``sgdeploy logs``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import ONLY_HELP, Json, OneTarget, moment

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.deploy.hostlogs import LogsOptions

EXAMPLES = """
  sgdeploy logs                             the last 20 lines of every rank of the only deployment known
  sgdeploy logs dsv3 --only prefill/long    of one instance; --only n07: of one host
  sgdeploy logs dsv3 -f                     and what comes, until Ctrl-C
  sgdeploy logs dsv3 --since 10m            all lines of the last ten minutes
  sgdeploy logs dsv3 --grep 'error|Traceback' -i --tail 3
  sgdeploy logs my.yaml --previous          after `down`, or of the run before the last
""".lstrip("\n")
TAIL = 20


def count_of_lines(text: str) -> int:
    """Read a number of lines; -1 for ``all``.

    Raises:
        typer.BadParameter: it is neither.
    """
    if text == "all":
        return -1
    if not text.isdecimal():
        raise typer.BadParameter("must be a number of lines, or all")
    return int(text)


@dataclass(frozen=True, kw_only=True)
class Options(OneTarget, Json):
    """Arguments and options of ``logs``."""

    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SELECTOR", show_default="everything", help=ONLY_HELP, autocompletion=complete.parts),
    ] = None
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")] = False
    tail: Annotated[
        int | None,
        typer.Option(
            parser=count_of_lines,
            metavar="LINES|all",
            show_default=f"{TAIL}; all with --since or --grep",
            help="How many lines of each rank, from the end; with --grep, how many that match.",
        ),
    ] = None
    since: Annotated[
        float | None,
        typer.Option(
            parser=moment,
            metavar="DURATION|TIME",
            show_default="any time",
            help="Only what was written since: 10m, 22:15, 2026-11-29T22:15:00.",
        ),
    ] = None
    grep: Annotated[
        str | None,
        typer.Option(metavar="REGEX", show_default="all lines", help="Only lines that match; searched on the hosts."),
    ] = None
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="For --grep: upper and lower case.")] = False
    invert: Annotated[bool, typer.Option("--invert-match", "-v", help="For --grep: lines that do not match.")] = False
    previous: Annotated[bool, typer.Option("--previous", "-p", help="Of the run before the last one.")] = False
    all_runs: Annotated[bool, typer.Option("--all", help="Whole logs, not only the part of the last run.")] = False


def logs(desk: Desk, options: Options) -> None:
    """Show what the processes of a deployment have written, all of them in the order of time.

    Each line stands behind its host and rank. Lines without a time stay with the line before. Logs stay on the hosts
    after `down`. What cannot be reached is told at the end, and the exit code is 5 then; Ctrl-C ends --follow with 130.
    """
    from sgdeploy.cli.run import INTERRUPTED, run
    from sgdeploy.cli.targets import one_or_the_only
    from sgdeploy.cli.work import show_logs
    from sgdeploy.errors import CancelledRunError

    console = desk.open(options)
    target = one_or_the_only(desk, options.target, options)
    wanted = _wanted(options)
    try:
        run(desk, console, show_logs(desk, console, target.plan, wanted), endless=wanted.follow)
    except CancelledRunError as interrupted:
        raise typer.Exit(INTERRUPTED) from interrupted


def _wanted(options: Options) -> LogsOptions:
    import re
    import warnings

    from sgdeploy.deploy.hostlogs import Grep, LogsOptions
    from sgdeploy.errors import UsageError

    if options.previous and (options.all_runs or options.follow):
        raise UsageError(f"--previous and {'--all' if options.all_runs else '--follow'} contradict each other")
    if options.grep is None and (options.ignore_case or options.invert):
        raise UsageError("--ignore-case and --invert-match are about --grep, which is missing")
    try:
        with warnings.catch_warnings():  # Doubts of Python about its own next versions help nobody here.
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(options.grep or "")
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--grep {options.grep!r} is no regular expression: {error}") from error
    part: Literal["run", "previous", "all"] = "previous" if options.previous else "all" if options.all_runs else "run"
    tail = options.tail
    if tail is None:
        tail = TAIL if options.since is None and options.grep is None else -1
    return LogsOptions(
        only=tuple(options.only or ()),
        part=part,
        tail=None if tail < 0 else tail,
        since=options.since,
        grep=None if options.grep is None else Grep(options.grep, options.ignore_case, options.invert),
        follow=options.follow,
    )
