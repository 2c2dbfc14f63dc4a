"""JSON Schemas of profiles and inventories, so that editors complete keys and show their meaning."""

from __future__ import annotations

from typing import Any

from sgdeploy.profile.inventory_schema import InventoryFile
from sgdeploy.profile.schema import NativeProfile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_EXTENDS = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    "description": "Profiles that this one changes: paths relative to this file, or shipped:PATH. Later ones win.",
}


def profile_schema() -> dict[str, Any]:
    """Describe a profile.

    A file that extends another may leave any key out, so keys are only demanded at the top of a file that does not.
    """
    schema = NativeProfile.model_json_schema()
    schema["properties"] = {"$schema": {"type": "string"}, "extends": _EXTENDS, **schema["properties"]}
    needed = schema.pop("required")
    for part in schema["$defs"].values():
        part.pop("required", None)
    schema["anyOf"] = [{"required": ["extends"]}, {"required": needed}]
    return {"$schema": _DIALECT, "title": "sgdeploy profile", **_without_title(schema)}


def inventory_schema() -> dict[str, Any]:
    """Describe an inventory file."""
    schema = InventoryFile.model_json_schema()
    schema["properties"] = {"$schema": {"type": "string"}, **schema["properties"]}
    return {"$schema": _DIALECT, "title": "sgdeploy inventory", **_without_title(schema)}


def _without_title(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}
