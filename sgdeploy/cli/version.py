"""``sgdeploy version``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sgdeploy.cli.options import Json

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy version                        of sgdeploy, Python, the system and the libraries
  sgdeploy version --support > about.txt  to attach to a bug report
  sgdeploy --version                      of sgdeploy alone
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(Json):
    """Options of ``version``."""

    support: Annotated[
        bool,
        typer.Option(
            "--support",
            help="Print all that a bug report needs: versions, the system, whether there is an SSH configuration, the "
            "deployments known here. No secrets, no contents of files, no values of variables.",
        ),
    ] = False


def version(desk: Desk, options: Options) -> None:
    """Print the versions that a bug report needs."""
    console = desk.open(options)
    found: dict[str, Any]
    if options.support:
        from sgdeploy.cli.support import support

        found = support(desk.environ)
    else:
        from sgdeploy.cli.debug import versions

        found = dict(versions())
    if options.json:
        console.json(found)
        return
    for name, value in found.items():
        console.line(f"{name} {_text(value)}")


def _text(value: Any) -> str:
    """Write a value on one line."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_text(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return {True: "yes", False: "no"}.get(value, str(value))
