"""The page on profiles lists every key of profiles and inventories, as the schema has it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sgdeploy.console.text import duration
from sgdeploy.profile.inventory_schema import InventoryFile
from sgdeploy.profile.jsonschema import profile_schema
from sgdeploy.profile.scalars import Cores, Duration, Name, Port
from sgdeploy.profile.topologies import PROFILES, ROLE_KEYS

PAGE = Path(__file__).parents[3] / "docs" / "profile.md"
BEGIN, END = "<!-- keys -->\n", "<!-- end of keys -->\n"
IS_REFRESHED = os.environ.get("SGDEPLOY_REFRESH_GOLDEN") == "1"
Schema = Mapping[str, Any]

DURATION = "duration"
PLAIN = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}
TITLES = {
    "Instance": "An instance",
    "TwoPrefills": "prefill of two buckets",
    "HostEntry": "A host in detail",
    "Hosts": "Hosts from a file",
}
"""Headings of sections that stand below more than one key, or below none."""


def known(kind: Any) -> str:
    return json.dumps(shape(TypeAdapter(kind).json_schema()), sort_keys=True)


def shape(form: Schema) -> Schema:
    return {key: value for key, value in form.items() if key not in {"title", "description", "default"}}


WORDS = {known(Duration): DURATION, known(Cores): "cores", known(Port): "port", known(Name): "name"}


def alternatives(form: Schema) -> list[Schema]:
    """List the forms that a value may have, without the null that only says that there is a default."""
    forms = [form for part in (*form.get("anyOf", ()), *form.get("oneOf", ())) for form in alternatives(part)]
    return [one for one in forms if one.get("type") != "null"] or [shape(form)]


def kind(form: Schema, titles: Mapping[str, str]) -> str:
    """Say of which type a value is."""
    forms = alternatives(form)
    whole = json.dumps(forms[0] if len(forms) == 1 else {"anyOf": forms}, sort_keys=True)
    if whole in WORDS:
        return WORDS[whole]
    return " or ".join(dict.fromkeys(one_kind(one, titles) for one in forms))


def one_kind(form: Schema, titles: Mapping[str, str]) -> str:
    if "$ref" in form:
        title = titles[form["$ref"].rpartition("/")[2]]
        return f"[{title}](#{title.lower().replace(' ', '-')})"
    if "oneOf" in form or "anyOf" in form or json.dumps(form, sort_keys=True) in WORDS:
        return kind(form, titles)
    if "enum" in form or "const" in form:
        return " or ".join(f"`{word}`" for word in form.get("enum", [form.get("const")]))
    if form.get("type") == "array":
        return f"list of {kind(form['items'], titles)}"
    if form.get("type") == "object":
        return mapping(form, titles)
    words = form.get("type", ["string", "number", "boolean", "null"])
    least = f" from {form['minimum']}" if "minimum" in form else ""
    return " or ".join(PLAIN[word] for word in ([words] if isinstance(words, str) else words)) + least


def mapping(form: Schema, titles: Mapping[str, str]) -> str:
    """Name a mapping by what its values are, where these are sections of their own; else its meaning tells."""
    for value in form.get("patternProperties", {}).values():
        if "type" not in value:
            return f"mapping of names to {kind(value, titles)}"
    return "mapping"


def default(form: Schema, *, needed: bool) -> str:
    """Say what holds where the key is left out; "" where the meaning tells, or a section's own keys do."""
    value = form.get("default")
    if needed:
        return "*needed*"
    if value is None or value in ("", {}, []) or isinstance(value, dict):
        return ""
    if WORDS.get(json.dumps({"anyOf": alternatives(form)}, sort_keys=True)) == DURATION:
        return f"`{duration(value).replace(' ', '').removesuffix('00s').replace('.0s', 's')}`"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def meaning(form: Schema, parts: Schema) -> str:
    """Give what is said of a key, or of the first form of its value, or of the section that stands there."""
    if "description" in form:
        return str(form["description"])
    if "$ref" in form:
        return str(parts[form["$ref"].rpartition("/")[2]]["description"])
    return meaning(form["anyOf"][0], parts)


def table(section: Schema, parts: Schema, titles: Mapping[str, str]) -> Iterator[str]:
    yield "| key | type | default | meaning |\n|---|---|---|---|\n"
    for key, form in section["properties"].items():
        by_default = "*by topology*" if key in ROLE_KEYS else default(form, needed=key in section.get("required", ()))
        cells = (f"`{key}`", kind(form, titles), by_default, meaning(form, parts).replace("``", "`"))
        yield "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |\n"


def references(form: Any) -> Iterator[str]:
    """Give the names of the parts that a form refers to, in its own order."""
    if isinstance(form, Mapping):
        if "$ref" in form:
            yield form["$ref"].rpartition("/")[2]
        for value in form.values():
            yield from references(value)
    elif isinstance(form, list):
        for value in form:
            yield from references(value)


def parts_in_order(top: Schema, parts: Schema) -> dict[str, str]:
    """Give each part that may stand below, with the heading of its table: the key that it stands at."""
    found: dict[str, str] = {}
    waiting: list[Schema] = [top]
    while waiting:
        for key, form in waiting.pop(0)["properties"].items():
            for name in references(form):
                if name not in found:
                    found[name] = TITLES.get(name, key)
                    waiting.append(parts[name])
    return found


def keys() -> str:
    """Write the tables: the profile, its sections, the inventory, its sections."""
    models = [model.model_json_schema() for model in (*PROFILES.values(), InventoryFile)]
    parts = {name: part for schema in models for name, part in schema["$defs"].items()}
    whole, inventory = profile_schema(), models[-1]
    properties = {key: form for key, form in whole["properties"].items() if key != "$schema"}
    profile = {"properties": properties, "required": whole["anyOf"][1]["required"]}
    below, of_inventory = parts_in_order(profile, parts), parts_in_order(inventory, parts)
    titles = {**below, **of_inventory, "InventorySection": "Inventory"}
    own = {name: title for name, title in below.items() if name not in of_inventory and name != "InventorySection"}
    text = "## Profile\n\n" + "".join(table(profile, parts, titles))
    text += "".join(section_text(title, parts[name], parts, titles) for name, title in own.items())
    text += "\n## Inventory\n\n" + "".join(table(inventory, parts, titles))
    return text + "".join(section_text(title, parts[name], parts, titles) for name, title in of_inventory.items())


def section_text(title: str, part: Schema, parts: Schema, titles: Mapping[str, str]) -> str:
    return f"\n### {title}\n\n{part['description'].replace('``', '`')}\n\n" + "".join(table(part, parts, titles))


def test_the_tables_of_keys_are_the_schema() -> None:
    """Set SGDEPLOY_REFRESH_GOLDEN=1 to write the tables anew, then read the difference."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + BEGIN + keys() + END + after
    if IS_REFRESHED:
        PAGE.write_text(wanted, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted
