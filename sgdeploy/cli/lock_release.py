"""``sgdeploy lock release``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import Json, OneTarget

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy lock release dsv3            where its holder is proven gone
  sgdeploy lock release dsv3 --force    take it from a command that may live: that one stops, and leaves all as it is
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(OneTarget, Json):
    """Arguments and options of ``lock release``."""

    force: Annotated[
        bool, typer.Option("--force", help="Also where the command that holds it may live; it is told, and stops.")
    ] = False


def lock_release(desk: Desk, options: Options) -> None:
    """Free the lock of a deployment, by ending the helper that holds it on the host of the first leader.

    Without --force only where the command that holds it is proven gone: it ran on this machine and has ended, or its
    helper has heard nothing for a minute. Whoever loses a lock does nothing more on any host; what it started goes on.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import one_or_the_only
    from sgdeploy.cli.work import take_lock

    console = desk.open(options)
    target = one_or_the_only(desk, options.target, options)
    before = run(desk, console, take_lock(desk, target.plan, force=options.force))
    if before.owner is None:
        console.say(f"{before.name}: the lock on host {before.host} is free; there is nothing to release")
    else:
        console.say(f"{before.name}: the lock on host {before.host} is free; it was held by {before.holder}")
    if options.json:
        console.json(before.to_json())
