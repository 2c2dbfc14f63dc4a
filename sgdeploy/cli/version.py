"""``sgdeploy version``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.cli.options import Json

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy version          of sgdeploy, Python, the system and the libraries
  sgdeploy --version        of sgdeploy alone
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(Json):
    """Options of ``version``."""


def version(desk: Desk, options: Options) -> None:
    """Print the versions that a bug report needs."""
    from sgdeploy.cli.debug import versions

    console = desk.open(options)
    found = versions()
    if options.json:
        console.json(found)
    else:
        for name, number in found.items():
            console.line(f"{name} {number}")
