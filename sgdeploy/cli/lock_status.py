"""``sgdeploy lock status``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.cli.options import Json, OneTarget

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy lock status            of the only deployment that is known here
  sgdeploy lock status dsv3       by name
  sgdeploy lock status my.yaml    by profile, from any machine that has it
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(OneTarget, Json):
    """Arguments and options of ``lock status``."""


def lock_status(desk: Desk, options: Options) -> None:
    """Tell who holds the lock of a deployment, since when, for which command, and whether that command lives."""
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import one_or_the_only
    from sgdeploy.cli.work import state_of_lock

    console = desk.open(options)
    target = one_or_the_only(desk, options.target, options)
    console.lock(run(desk, console, state_of_lock(target.plan)))
