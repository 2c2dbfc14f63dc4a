"""``sgdeploy up``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import AGAIN_HELP, ONLY_HELP, Changes, LockWait, Progress, seconds

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy up my.yaml                               wait until every rank is ready
  sgdeploy up my.yaml --dry-run                     check the hosts, change nothing
  sgdeploy up my.yaml --set native.port=31000       with one value changed
  sgdeploy up shipped:demo/local --json             one JSON object per event
  sgdeploy up my.yaml --no-wait                     start, then look with: sgdeploy status NAME
  sgdeploy up my.yaml --only router                 only a part, beside what runs already
  sgdeploy up dsv3 --yes                            after a change of its profile: restart what it takes, unasked
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(Changes, LockWait, Progress):
    """Arguments and options of ``up``."""

    target: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE|NAME",
            autocompletion=complete.targets,
            show_default=False,
            help=AGAIN_HELP,
        ),
    ]
    timeout: Annotated[
        float | None,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            show_default="health.timeout of the profile, 45m unless set",
            help="Overall limit of the wait: 90, 45m, 1h30m.",
        ),
    ] = None
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until ready, or end once every process lives.")
    ] = True
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Connect and check everything, change nothing on any host.")
    ] = False
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave what was started running where bring-up fails, for a look.")
    ] = False
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SELECTOR", show_default="everything", help=ONLY_HELP, autocompletion=complete.parts),
    ] = None
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Stop and restart what the change of a profile takes, without a question."),
    ] = False


def up(desk: Desk, options: Options) -> None:
    """Bring a deployment up and wait until every rank is ready and a completion has come back.

    All problems of the profile are told before any host is touched, all problems of the hosts before anything is
    started. If a process fails, what was started is stopped again.

    What runs as planned goes on; where all of it does, there is nothing to do. An instance, tokenizer or router that
    was planned otherwise, or of which a rank has ended, is restarted as a whole, after a question where it may serve.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import as_started_last, profile_of
    from sgdeploy.cli.work import Wanted, bring_up
    from sgdeploy.deploy.events import Note

    console = desk.open(options)
    target = profile_of(desk, options.target, options)
    console.problems(target.warnings)
    if target.recalled:
        console.tell(Note(as_started_last(desk, target), hint="name the profile's path to start it without"))
    wanted = Wanted(
        options.timeout,
        wait=options.wait,
        dry_run=options.dry_run,
        keep=options.keep,
        only=tuple(options.only or ()),
        yes=options.yes,
        lock_wait=options.lock_wait or 0.0,
    )
    with console.watching(target.plan):
        run(desk, console, bring_up(desk, console, target, wanted))
