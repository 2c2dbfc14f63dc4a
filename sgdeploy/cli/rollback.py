"""``sgdeploy rollback``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import LockWait, OneTarget, Progress, seconds

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy rollback dsv3                          to the last plan that was ready and does not run now
  sgdeploy rollback dsv3 --to 3f2a91c04d7be850    to one that `sgdeploy history` shows
  sgdeploy rollback my.yaml --yes                 by profile, from any machine, without a question
  sgdeploy rollback dsv3 --dry-run                check the hosts and show what would change
""".lstrip("\n")


def plan_digest(text: str) -> str:
    """Read the begin of a plan's digest in any of the forms in which one is shown, as `history` shows it.

    Raises:
        typer.BadParameter: it is none.
    """
    digits = text.strip().lower().removeprefix("sha256:")
    if not re.fullmatch("[0-9a-f]{1,64}", digits):
        raise typer.BadParameter("must be the begin of a plan's digest, as `sgdeploy history` shows it")
    return digits[:16]


@dataclass(frozen=True, kw_only=True)
class Options(OneTarget, LockWait, Progress):
    """Arguments and options of ``rollback``."""

    to: Annotated[
        str | None,
        typer.Option(
            parser=plan_digest,
            metavar="PLAN",
            show_default="the last one that was ready",
            help="Begin of a digest, as `history` shows it.",
        ),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            show_default="that of the plan, 45m unless set",
            help="Overall limit of the wait: 90, 45m, 1h30m.",
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Connect and check everything, change nothing on any host.")
    ] = False
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Stop and restart what it takes, without a question.")] = (
        False
    )


def rollback(desk: Desk, options: Options) -> None:
    """Make what runs into the last plan that was ready, as `up` does: only what differs restarts, after a question.

    The last ten such plans are kept on the host of the first leader, also after `down`. The profile stays as it is.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import one_or_the_only
    from sgdeploy.cli.work import Wanted, roll_back

    console = desk.open(options)
    target = one_or_the_only(desk, options.target, options)
    wanted = Wanted(
        options.timeout, dry_run=options.dry_run, yes=options.yes, verb="rollback", lock_wait=options.lock_wait or 0.0
    )
    with console.watching(target.plan):
        run(desk, console, roll_back(desk, console, target, options.to, wanted))
