"""``sgdeploy plan``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import PROFILE_HELP, Changes, Json

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy plan my.yaml                       who runs where, on which ports and cores
  sgdeploy plan my.yaml --host n03            all that one host gets: commands, variables, cores
  sgdeploy plan my.yaml --json > plan.json    the whole plan, for programs and for diff
  sgdeploy plan my.yaml --out scripts/        as bash scripts to read and to run by hand
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(Changes, Json):
    """Arguments and options of ``plan``."""

    profile: Annotated[str, typer.Argument(metavar="PROFILE", show_default=False, help=PROFILE_HELP)]
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", show_default="all hosts, summed up", help="Show all that one host gets."),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default="none written",
            help="Write one script per process and per host there. DIR is new, empty, or from an earlier --out.",
        ),
    ] = None


def plan(desk: Desk, options: Options) -> None:
    """Show what would run where. No host is touched: what is shown is what `up` runs.

    Secrets are shown by their names only.
    """
    from sgdeploy.cli.targets import compiled
    from sgdeploy.errors import UsageError

    console = desk.open(options)
    target = compiled(desk, options.profile, options)
    console.advise(target.warnings)
    hosts = [host.host for host in target.plan.hosts]
    if options.host is not None and options.host not in hosts:
        raise UsageError(f"no host named {options.host} is in the plan", hint=f"its hosts: {', '.join(hosts)}")
    if options.out is not None:
        from sgdeploy.cli.outdir import write_tree
        from sgdeploy.render.scripts import tree
        from sgdeploy.words import plural

        count = write_tree(options.out, tree(target.plan))
        console.line(f"{plural(count, 'file')} written to {options.out}", written=count, folder=str(options.out))
    elif options.host is not None:
        console.plan_of_host(target.plan, options.host)
    else:
        console.plan(target.plan)
