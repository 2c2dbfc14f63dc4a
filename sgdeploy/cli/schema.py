"""``sgdeploy schema``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import Json

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy schema > sgdeploy.schema.json
  sgdeploy schema --inventory > inventory.schema.json
  # first line of a profile, for editors with the YAML language server:
  # yaml-language-server: $schema=sgdeploy.schema.json
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(Json):
    """Options of ``schema``; its data is JSON either way."""

    json: Annotated[bool, typer.Option("--json", help="Write it on one line, for programs.")] = False

    inventory: Annotated[bool, typer.Option("--inventory", help="The schema of inventories instead.")] = False


def schema(desk: Desk, options: Options) -> None:
    """Print the JSON Schema of profiles (or inventories), so that editors complete keys and show their meaning."""
    from sgdeploy.profile.jsonschema import inventory_schema, profile_schema

    found = inventory_schema() if options.inventory else profile_schema()
    desk.open(options).json(found, for_people=not options.json)
