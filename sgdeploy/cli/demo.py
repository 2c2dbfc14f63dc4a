"""``sgdeploy demo``."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import Changes, Progress

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.console.console import Console
    from sgdeploy.plan.model import Plan

EXAMPLES = """
  sgdeploy demo                 up, one completion, status, down
  sgdeploy demo --keep          leave it running; then: sgdeploy status demo, sgdeploy down demo
  sgdeploy demo --two-bucket    short and long prompts served by different prefill instances, by the real router
""".lstrip("\n")
PROFILE = "shipped:demo/local"
TWO_BUCKET = "shipped:demo/two-bucket"
ROUTER = "sglang-router==0.3.2"


@dataclass(frozen=True, kw_only=True)
class Options(Progress):
    """Options of ``demo``."""

    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running at the end.")] = False
    two_bucket: Annotated[
        bool,
        typer.Option(
            "--two-bucket",
            help="Two prefill instances, a decode, and the real router, which parts prompts by length. "
            f"Needs the package {ROUTER}.",
        ),
    ] = False


def demo(desk: Desk, options: Options) -> None:
    """Bring a small cluster up on this machine, use it, take it down, and prove that nothing is left.

    Hosts are addresses of the loopback network and the engine is the simulated one: no SSH, no root, no model, no GPU.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import compiled
    from sgdeploy.cli.work import Wanted, ask, bring_up, show_parting
    from sgdeploy.errors import CancelledRunError

    console = desk.open(options)
    profile, changes = (TWO_BUCKET, _own_router()) if options.two_bucket else (PROFILE, [])
    target = compiled(desk, profile, Changes(sets=changes))
    console.say("$ " + shlex.join(["sgdeploy", "up", profile, *(word for set_ in changes for word in ("--set", set_))]))
    try:
        with console.watching(target.plan):
            run(desk, console, bring_up(desk, console, target, Wanted()))
    except CancelledRunError as interrupted:
        if options.keep:
            raise
        _end(desk, console, target.plan)
        raise CancelledRunError("interrupted; the demo is taken down again") from interrupted
    try:
        if options.two_bucket:
            console.say("short and long prompts")
            run(desk, console, show_parting(desk, console, target.plan))
        console.say(f"$ sgdeploy status {target.plan.name}")
        console.status(run(desk, console, ask(desk, target.plan)))
    finally:
        if options.keep:
            console.say(f"it keeps running; `sgdeploy down {target.plan.name}` takes it down")
        else:
            _end(desk, console, target.plan)


def _own_router() -> list[str]:
    """Give the change of the profile that runs the router by this Python.

    Raises:
        UsageError: this Python has no router.
    """
    from importlib.util import find_spec

    from sgdeploy.errors import UsageError

    if find_spec("sglang_router") is None:
        raise UsageError(
            f"the demo of two buckets runs the real router, and {sys.executable} has no package sglang-router",
            hint=f"{shlex.quote(sys.executable)} -m pip install {ROUTER}   (./dev demo --two-bucket has it)",
        )
    return [f"router.python={sys.executable}"]


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
