"""``sgdeploy down``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import ONLY_HELP, LockWait, OneTarget, Progress, seconds

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy down                 the only deployment that was started from this machine
  sgdeploy down dsv3            by name
  sgdeploy down my.yaml         by profile, from any machine that has it
  sgdeploy down dsv3 --now      no drain: running requests are cut off
  sgdeploy down dsv3 --only router
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(OneTarget, LockWait, Progress):
    """Arguments and options of ``down``."""

    grace: Annotated[
        float | None,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            show_default="health.grace of the profile, 20s unless set",
            help="How long the leaders may drain running requests.",
        ),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SELECTOR", show_default="everything", help=ONLY_HELP, autocompletion=complete.parts),
    ] = None
    now: Annotated[bool, typer.Option("--now", help="Kill at once, without a drain.")] = False
    keep_records: Annotated[
        bool, typer.Option("--keep-records", help="Leave records and scripts on the hosts (logs always stay).")
    ] = False


def down(desk: Desk, options: Options) -> None:
    """Take a deployment down and prove that its processes are gone and its ports free.

    Only processes on record are stopped. Where nothing runs it says so and ends with 0.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import one_or_the_only
    from sgdeploy.cli.work import owner, take_down
    from sgdeploy.deploy.options import DownOptions
    from sgdeploy.errors import UsageError

    console = desk.open(options)
    if options.now and options.grace is not None:
        raise UsageError("--now and --grace contradict each other")
    target = one_or_the_only(desk, options.target, options)
    wanted = DownOptions(
        owner(desk),
        options.grace,
        now=options.now,
        keep_records=options.keep_records,
        only=tuple(options.only or ()),
        lock_wait=options.lock_wait or 0.0,
    )
    with console.watching(target.plan, ranks=False):
        run(desk, console, take_down(desk, console, target.plan, wanted))
