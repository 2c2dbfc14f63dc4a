"""``sgdeploy diagnose``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import Json, PathChanges

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy diagnose dsv3                        the logs of a deployment, on all its hosts
  sgdeploy diagnose my.yaml                     by profile, from any machine that has it
  sgdeploy diagnose logs/n0.log logs/n1.log     logs in files, also of an engine that sgdeploy did not start
  sgdeploy diagnose logs/                       all logs of a folder
""".lstrip("\n")

WRONG = 6


@dataclass(frozen=True, kw_only=True)
class Options(PathChanges, Json):
    """Arguments and options of ``diagnose``."""

    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|PROFILE|LOGFILE...|FOLDER]",
            show_default="the only deployment that is known",
            help="A deployment by name or profile, or logs: files, and folders of files. A kernel log (kernel.log, "
            "dmesg.txt) among them tells whom the out-of-memory killer took.",
            autocompletion=complete.targets,
        ),
    ] = None


def diagnose(desk: Desk, options: Options) -> None:
    """Read logs and name the first cause over all ranks, the faulty rank, and the next step.

    Ends with 0 where nothing wrong is found, 6 where something is, 5 where no host answers.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import resolve, the_only_one
    from sgdeploy.cli.work import look_into
    from sgdeploy.deploy.logfiles import logs_in
    from sgdeploy.diagnose.judge import diagnose as judged

    console = desk.open(options)
    words = options.targets or []
    if _are_logs(desk, words):
        found, unreachable = judged(logs_in(words)), dict[str, str]()
    else:
        plan = resolve(desk, words[0], options).plan if words else the_only_one(desk).plan
        diagnosed = run(desk, console, look_into(plan))
        found, unreachable = diagnosed.diagnosis, dict(diagnosed.unreachable)
    console.diagnosis(found, unreachable)
    raise typer.Exit(WRONG if found.findings else 0)


def _are_logs(desk: Desk, words: list[str]) -> bool:
    """Tell logs from a deployment: several words, or one that is a folder or a file, and neither name nor profile."""
    from sgdeploy.cli.targets import SHIPPED, registry
    from sgdeploy.errors import UsageError
    from sgdeploy.paths import is_there

    if "" in words:
        raise UsageError("an empty word names no log and no deployment", hint="`.` means the working folder")
    if len(words) != 1:
        return bool(words)
    word = words[0]
    if word.startswith(SHIPPED) or word.endswith((".yaml", ".yml")) or word in registry(desk).names():
        return False
    return is_there(Path(word)) or "/" in word or "." in word
