"""``sgdeploy demo``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import Changes, Progress

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.console.console import Console
    from sgdeploy.plan.model import Plan

EXAMPLES = """
  sgdeploy demo             up, one completion, status, down
  sgdeploy demo --keep      leave it running; then: sgdeploy status demo, sgdeploy down demo
""".lstrip("\n")
PROFILE = "shipped:demo/local"


@dataclass(frozen=True, kw_only=True)
class Options(Progress):
    """Options of ``demo``."""

    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running at the end.")] = False


def demo(desk: Desk, options: Options) -> None:
    """Bring a small cluster up on this machine, use it, take it down, and prove that nothing is left.

    Hosts are addresses of the loopback network and the engine is the simulated one: no SSH, no root, no model, no GPU.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import compiled
    from sgdeploy.cli.work import Wanted, ask, bring_up
    from sgdeploy.errors import CancelledRunError

    console = desk.open(options)
    target = compiled(desk, PROFILE, Changes())
    console.say(f"$ sgdeploy up {PROFILE}")
    try:
        with console.watching(target.plan):
            run(desk, console, bring_up(desk, console, target, Wanted()))
    except CancelledRunError as interrupted:
        if options.keep:
            raise
        _end(desk, console, target.plan)
        raise CancelledRunError("interrupted; the demo is taken down again") from interrupted
    try:
        console.say(f"$ sgdeploy status {target.plan.name}")
        console.status(run(desk, console, ask(desk, target.plan)))
    finally:
        if options.keep:
            console.say(f"it keeps running; `sgdeploy down {target.plan.name}` takes it down")
        else:
            _end(desk, console, target.plan)


def _end(desk: Desk, console: Console, plan: Plan) -> None:
    """Take it down, and look once more with fresh eyes."""
    from sgdeploy.cli.run import run
    from sgdeploy.cli.work import ask, owner, take_down
    from sgdeploy.deploy.options import DownOptions
    from sgdeploy.errors import LeftoverError

    console.say(f"$ sgdeploy down {plan.name}")
    with console.watching(plan, ranks=False):
        run(desk, console, take_down(desk, console, plan, DownOptions(owner(desk))))
    after = run(desk, console, ask(desk, plan))
    if after.state != "down":
        raise LeftoverError(f"{plan.name} should be down and is {after.state}", [])
    console.say(f"asked again, {plan.name} is down: no process, no port, no record is left")
