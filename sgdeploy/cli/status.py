"""``sgdeploy status``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import TARGET_HELP, Json, PathChanges

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy status                         every deployment that was started from this machine
  sgdeploy status dsv3                    one of them, rank by rank
  sgdeploy status my.yaml                 by profile, from any machine that has it
  sgdeploy status dsv3 --json | jq .state
  sgdeploy status dsv3 --advice           what its token usage, queue and memory say about its settings
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(PathChanges, Json):
    """Arguments and options of ``status``."""

    target: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|PROFILE", show_default="all that are known", help=TARGET_HELP, autocompletion=complete.targets
        ),
    ] = None
    advice: Annotated[
        bool,
        typer.Option("--advice", help="Also say what the figures of each server in its log mean for its settings."),
    ] = False


def status(desk: Desk, options: Options) -> None:
    """Tell how a deployment is, by asking its hosts.

    Ends with 0 where it is ready, 1 where it starts or is degraded, 9 where it is down, 5 where no host answers.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import all_known, none_is_up, resolve
    from sgdeploy.cli.work import ask, ask_all, verdict
    from sgdeploy.errors import UsageError

    console = desk.open(options)
    if options.target is not None:
        target = resolve(desk, options.target, options)
        found = run(desk, console, ask(desk, target.plan, advise=options.advice))
        console.status(found)
        raise typer.Exit(verdict([found]))
    if options.advice:
        raise UsageError("--advice is about one deployment", hint="name it: `sgdeploy status NAME --advice`")
    plans = [known.plan for known in all_known(desk)]
    if not plans:
        console.say(none_is_up(desk))
        raise typer.Exit
    statuses, errors = run(desk, console, ask_all(desk, plans))
    if statuses:
        console.overview(statuses)
    for error in errors:
        console.error(error)
    raise typer.Exit(errors[0].exit_code if errors else verdict(statuses))
