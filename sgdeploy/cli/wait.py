"""``sgdeploy wait``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import OneTarget, Progress, seconds

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy wait                     the only deployment that was started from this machine
  sgdeploy wait dsv3                after Ctrl-C, or after: sgdeploy up … --no-wait
  sgdeploy wait my.yaml             by profile, from any machine that has it
  sgdeploy wait dsv3 --timeout 1h
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(OneTarget, Progress):
    """Arguments and options of ``wait``."""

    timeout: Annotated[
        float | None,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            show_default="health.timeout of the profile, 45m unless set",
            help="Limit of this wait: 90, 45m, 1h30m.",
        ),
    ] = None


def wait(desk: Desk, options: Options) -> None:
    """Wait until what runs is ready: every rank, and a completion that came back, as in `up`.

    What runs is read from its hosts, and no process is touched; any number may wait. A rank that failed ends it with
    6, as in `up`, but nothing is stopped. What was never started is waited for only while an `up` is at work on it.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import one_or_the_only
    from sgdeploy.cli.work import wait_for

    console = desk.open(options)
    target = one_or_the_only(desk, options.target, options)
    with console.watching(target.plan):
        run(desk, console, wait_for(desk, console, target.plan, options.timeout))
