"""``sgdeploy watch``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.cli.options import OneTarget, Progress

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy watch dsv3                 until Ctrl-C, or until something fails that is not restarted
  sgdeploy watch my.yaml --plain      a line per change, for a log
  nohup sgdeploy watch dsv3 --json >watch.jsonl &
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(OneTarget, Progress):
    """Arguments and options of ``watch``."""


def watch(desk: Desk, options: Options) -> None:
    """Watch what runs in the foreground, tell what changes, and restart what fails where its profile asks for it.

    `restart: {max: 3, backoff: 10s}` in an instance or the router of a profile lets a failure of any of its ranks start
    all of it again, up to so many times in a row, each time after twice the pause. It ends with 6 where something fails
    that is not restarted, or not any more, and stops nothing. Hosts that are lost are waited for.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import one_or_the_only
    from sgdeploy.cli.work import watch_over

    console = desk.open(options)
    target = one_or_the_only(desk, options.target, options)
    with console.watching(target.plan):
        run(desk, console, watch_over(desk, console, target.plan))
