"""``sgdeploy restart``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import TARGET_HELP, LockWait, PathChanges, Progress, seconds

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy restart dsv3 prefill/long      one instance, all of its ranks
  sgdeploy restart dsv3 router            the router alone
  sgdeploy restart dsv3 prefill decode    every prefill and every decode instance
  sgdeploy restart my.yaml '*'            everything, by profile, from any machine that has it
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(PathChanges, LockWait, Progress):
    """Arguments and options of ``restart``."""

    target: Annotated[
        str,
        typer.Argument(metavar="NAME|PROFILE", show_default=False, help=TARGET_HELP, autocompletion=complete.targets),
    ]
    only: Annotated[
        list[str],
        typer.Argument(
            metavar="SELECTOR...",
            show_default=False,
            help="What restarts: a role, an instance such as prefill/long, or the router; globs too ('*': everything).",
            autocompletion=complete.parts,
        ),
    ]
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            show_default="health.timeout of the profile, 45m unless set",
            help="Overall limit of the wait: 90, 45m, 1h30m.",
        ),
    ] = None


def restart(desk: Desk, options: Options) -> None:
    """Stop parts of what runs and start them again, as they were planned when they were started.

    The plan is the one on record on the hosts; a profile only says where to look. An instance restarts as a whole, its
    tokenizer with it; the router waits for its workers and restarts as well where it does not take them back.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import resolve
    from sgdeploy.cli.work import Wanted
    from sgdeploy.cli.work import restart as restart_case

    console = desk.open(options)
    target = resolve(desk, options.target, options)
    wanted = Wanted(options.timeout, lock_wait=options.lock_wait or 0.0)
    with console.watching(target.plan):
        run(desk, console, restart_case(desk, console, target.plan, tuple(options.only), wanted))
