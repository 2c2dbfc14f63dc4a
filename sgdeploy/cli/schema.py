"""``sgdeploy schema``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgdeploy.cli.options import Json

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy schema > sgdeploy.schema.json
  # first line of a profile, for editors with the YAML language server:
  # yaml-language-server: $schema=sgdeploy.schema.json
""".lstrip("\n")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, kw_only=True)
class Options(Json):
    """Options of ``schema``; its data is JSON either way."""


def schema(desk: Desk, options: Options) -> None:
    """Print the JSON Schema of profiles, so that editors complete keys and show their meaning."""
    from pydantic import TypeAdapter

    from sgdeploy.profile.schema import Profile

    body = TypeAdapter[Any](Profile).json_schema()
    desk.open(options).json({"$schema": _DIALECT, "title": "sgdeploy profile", **body})
