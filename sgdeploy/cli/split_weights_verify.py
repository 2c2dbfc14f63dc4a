"""``sgdeploy split-weights verify``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import Progress

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy split-weights verify /split
  sgdeploy split-weights verify /split --json
""".lstrip("\n")

_MOST_WORKERS = 4


@dataclass(frozen=True, kw_only=True)
class Options(Progress):
    """Arguments and options of ``verify``."""

    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="Folder of a split.")]
    workers: Annotated[
        int | None, typer.Option(min=1, show_default="the cores, at most 4", help="Files at a time.")
    ] = None


def split_weights_verify(desk: Desk, options: Options) -> None:
    """Read a split and hold every file against the manifest. The checkpoint is not needed.

    Ends with 8 where a file differs, is missing, or is not from this split and would be loaded as well.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.deploy.split import check

    console = desk.open(options)
    workers = options.workers or min(os.cpu_count() or 1, _MOST_WORKERS)
    with console.splitting():
        run(desk, console, check(options.folder, workers, console.tell))
