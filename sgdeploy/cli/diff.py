"""``sgdeploy diff``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import AGAIN_HELP, Changes, Json

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy diff my.yaml                             what `up my.yaml` would stop, start and restart, and why
  sgdeploy diff dsv3                                the same, by the profile of what was started as dsv3
  sgdeploy diff my.yaml --set engine.flags.page-size=32
  sgdeploy diff my.yaml --json | jq '.units[] | select(.fate != "keep")'
""".lstrip("\n")
DIFFERS = 1


@dataclass(frozen=True, kw_only=True)
class Options(Changes, Json):
    """Arguments and options of ``diff``."""

    target: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE|NAME",
            autocompletion=complete.targets,
            show_default=False,
            help=AGAIN_HELP,
        ),
    ]


def diff(desk: Desk, options: Options) -> None:
    """Show what `up` would make of what runs, by asking its hosts. Nothing is changed.

    Ends with 0 where all of it runs as planned, with 1 where something would start, stop or restart, or where other
    records would be written. A plan is compared with a plan by `sgdeploy plan --diff`, which asks no host.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import as_started_last, profile_of
    from sgdeploy.cli.work import difference
    from sgdeploy.console.replans import replan_lines

    console = desk.open(options)
    target = profile_of(desk, options.target, options)
    if target.recalled:
        console.say(as_started_last(desk, target))
    found = run(desk, console, difference(desk, console, target.plan))
    console.show(found.to_json(), replan_lines(found))
    raise typer.Exit(0 if found.same else DIFFERS)
