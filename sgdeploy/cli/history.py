"""``sgdeploy history``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import Json, OneTarget

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy history                     of the only deployment that was started from this machine
  sgdeploy history dsv3 --last 100
  sgdeploy history my.yaml             by profile, from any machine that has it, also after `down`
  sgdeploy history dsv3 --json | jq '.[] | select(.ready) | .plan'
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(OneTarget, Json):
    """Arguments and options of ``history``."""

    last: Annotated[
        int, typer.Option("--last", "-n", min=1, show_default="20", help="So many actions, the last ones.")
    ] = 20


def history(desk: Desk, options: Options) -> None:
    """Tell who did what to a deployment and when, oldest first, as the host of its first leader has it on record.

    A plan is called by the begin of its digest; one that was ready can be gone back to by `sgdeploy rollback --to`.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import one_or_the_only
    from sgdeploy.cli.work import history as read
    from sgdeploy.console.pasts import past_lines

    console = desk.open(options)
    target = one_or_the_only(desk, options.target, options)
    entries = run(desk, console, read(desk, target.plan)).entries[-options.last :]
    console.show([entry.to_json() for entry in entries], past_lines(entries))
    if not entries:
        console.say(f"nothing is on record on {target.plan.lead_host.host}, where its history is kept")
