"""JSON Schemas of profiles and inventories, so that editors complete keys and show their meaning."""

from __future__ import annotations

from typing import Any

from sgdeploy.profile.inventory_schema import InventoryFile
from sgdeploy.profile.topologies import PROFILES, ROLE_KEYS

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_EXTENDS = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    "description": "Profiles that this one changes: paths relative to this file, or shipped:PATH. Later ones win.",
}


def profile_schema() -> dict[str, Any]:
    """Describe a profile of any topology.

    A file that extends another may leave any key out, its topology too, so keys are only demanded at the top of a file
    that does not; which roles go together is demanded wherever the topology is said.
    """
    each = {word: model.model_json_schema() for word, model in PROFILES.items()}
    parts = {name: part for schema in each.values() for name, part in schema["$defs"].items()}
    for part in parts.values():
        part.pop("required", None)
    needed = [key for key in next(iter(each.values()))["required"] if all(key in s["required"] for s in each.values())]
    return {
        "$schema": _DIALECT,
        "title": "sgdeploy profile",
        "type": "object",
        "additionalProperties": False,
        "properties": {"$schema": {"type": "string"}, "extends": _EXTENDS, **_properties(each)},
        "anyOf": [{"required": ["extends"]}, {"required": needed}],
        "allOf": [_roles(word, schema) for word, schema in each.items()],
        "$defs": parts,
    }


def _properties(each: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Lay the properties of all topologies together; a key that differs between them may be any of its forms."""
    merged: dict[str, Any] = {}
    for schema in each.values():
        for key, form in schema["properties"].items():
            known = merged.setdefault(key, form)
            if form != known and key != "topology":
                forms = [*(known["anyOf"] if set(known) == {"anyOf"} else [known]), form]
                merged[key] = {"anyOf": forms}
    return {
        **merged,
        "topology": {"enum": list(each), "description": "Which roles there are, and how they work together."},
    }


def _roles(word: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Say which roles a topology has, and which not."""
    roles = {key: schema["properties"].get(key, False) for key in sorted(ROLE_KEYS)}
    needed = [key for key in schema["required"] if key in ROLE_KEYS]
    said = {"properties": {"topology": {"const": word}}, "required": ["topology"]}
    then = {"properties": roles, "anyOf": [{"required": ["extends"]}, {"required": needed}]}
    return {"if": said, "then": then}


def inventory_schema() -> dict[str, Any]:
    """Describe an inventory file."""
    schema = InventoryFile.model_json_schema()
    schema["properties"] = {"$schema": {"type": "string"}, **schema["properties"]}
    return {"$schema": _DIALECT, "title": "sgdeploy inventory", **_without_title(schema)}


def _without_title(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}
