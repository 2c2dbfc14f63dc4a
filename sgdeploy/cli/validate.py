"""``sgdeploy validate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import PROFILE_HELP, Changes, Json

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy validate my.yaml
  sgdeploy validate profiles/*.yaml                    many at once
  sgdeploy validate my.yaml --overlay rehearsal        with an overlay merged over it
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(Changes, Json):
    """Arguments and options of ``validate``."""

    profiles: Annotated[
        list[str],
        typer.Argument(metavar="PROFILE", show_default=False, help=PROFILE_HELP, autocompletion=complete.profiles),
    ]


def validate(desk: Desk, options: Options) -> None:
    """Check profiles and their inventories, flags, sizes, ports and cores, and show all problems. No host is touched.

    Ends with 0 where all are fine (warnings count as fine), 2 where one is not.
    """
    from sgdeploy.cli.targets import compiled
    from sgdeploy.errors import ProfileError
    from sgdeploy.words import plural

    console = desk.open(options)
    code = 0
    for name in options.profiles:
        try:
            target = compiled(desk, name, options)
        except ProfileError as error:
            console.problems(error.problems)
            console.line(f"{name}: not valid", profile=name, valid=False)
            code = error.exit_code
            continue
        console.problems(target.warnings)
        plan = target.plan
        size = f"{plural(len(plan.processes), 'process')} on {plural(len(plan.hosts), 'host')}"
        unset = [secret for secret in plan.secret_names if not desk.environ.get(secret)]
        if unset:
            console.say(f"note: {name}: not set in this environment, and needed by `up`: {', '.join(unset)}")
        console.line(f"{name}: valid: {plan.topology} on {plan.platform}, {size}", profile=name, valid=True)
    raise typer.Exit(code)
