"""``sgdeploy lock``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.cli.options import Json

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy lock                   the locks of all deployments that are known here
  sgdeploy lock status dsv3       of one: who holds it, and whether that command lives
  sgdeploy lock release dsv3      free it where its holder is proven gone
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(Json):
    """Options of ``lock``."""


def lock(desk: Desk, options: Options) -> None:
    """Tell who is at work on the deployments that are known on this machine.

    One command at a time works on a deployment: it holds a lock on the host of the first leader. That frees itself when
    the command ends, whatever ends it, and a minute after its connection was cut.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import all_known, none_is_up
    from sgdeploy.cli.work import state_of_lock

    console = desk.open(options)
    known = all_known(desk)
    if not known:
        console.say(none_is_up(desk))
    for each in known:
        console.lock(run(desk, console, state_of_lock(each.plan)))
