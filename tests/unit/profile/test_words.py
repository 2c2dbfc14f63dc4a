"""Guesses, durations and the JSON Schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sgdeploy.profile.jsonschema import inventory_schema, profile_schema
from sgdeploy.profile.router_schema import Bucket, Groups, Router, TokenizerServers
from sgdeploy.profile.scalars import parse_duration
from sgdeploy.profile.schema import Engine, HealthSettings, Instance, Model, Node, Parallel
from sgdeploy.profile.suggest import did_you_mean
from sgdeploy.profile.topologies import ROLE_KEYS


@pytest.mark.parametrize(
    ("word", "guess"),
    [
        ("decod", "decode"),
        ("Served-Name", "served_name"),
        ("served_nam", "served_name"),
        ("paralel", "parallel"),
        ("tp", None),
        ("zzz", None),
        ("", None),
        ("decode", None),
    ],
)
def test_guesses(word: str, guess: str | None) -> None:
    assert did_you_mean(word, ["decode", "served_name", "parallel", "pp"]) == guess


def test_the_nearest_guess_wins_whatever_the_order() -> None:
    words = ["rack10", "rack1", "rack2"]
    assert {did_you_mean("rak1", order) for order in (words, words[::-1])} == {"rack1"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45m", 2700.0),
        ("10s", 10.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        ("90", 90.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_duration(f" {text} ") == seconds


@pytest.mark.parametrize(
    "value", ["", "m", "45 m", "45min", "-5s", "1e3", "5m garbage", None, True, [], float("nan"), "٤s"]
)
def test_no_durations(value: object) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        parse_duration(value)


@pytest.mark.parametrize("value", [0, -1, "0s", "0m0s", -0.5])
def test_durations_that_are_no_time(value: object) -> None:
    with pytest.raises(ValueError, match="must be longer than zero"):
        parse_duration(value)


def properties(schema: dict[str, Any], name: str) -> set[str]:
    return set(schema["$defs"][name]["properties"])


def test_the_schema_names_every_key() -> None:
    schema = json.loads(json.dumps(profile_schema()))
    sections = (Engine, HealthSettings, Instance, Model, Node, Parallel, Router, Bucket, Groups, TokenizerServers)
    for section in sections:
        assert properties(schema, section.__name__) == set(section.model_fields)
        assert schema["$defs"][section.__name__]["additionalProperties"] is False
    assert {"$schema", "extends", "version", "inventory", *ROLE_KEYS} <= set(schema["properties"])
    assert schema["anyOf"][0] == {"required": ["extends"]}
    assert {"name", "topology", "model"} <= set(schema["anyOf"][1]["required"])
    assert not set(schema["anyOf"][1]["required"]) & ROLE_KEYS


def test_the_schema_says_which_roles_go_together() -> None:
    rules = {rule["if"]["properties"]["topology"]["const"]: rule["then"] for rule in profile_schema()["allOf"]}
    assert list(rules) == ["native", "pd", "two-bucket-prefill"]
    refused = {word: {key for key, form in rule["properties"].items() if form is False} for word, rule in rules.items()}
    assert refused == {"native": {"prefill", "decode", "router"}, "pd": {"native"}, "two-bucket-prefill": {"native"}}
    for word, rule in rules.items():
        assert set(rule["anyOf"][1]["required"]) == ROLE_KEYS - refused[word]
    assert rules["two-bucket-prefill"]["properties"]["prefill"] != rules["pd"]["properties"]["prefill"]


def test_every_key_of_the_schemas_is_explained() -> None:
    silent = [
        f"{section}.{key}"
        for schema in (profile_schema(), inventory_schema())
        for section, part in schema["$defs"].items()
        for key, field in part.get("properties", {}).items()
        if "description" not in field and "$ref" not in field
    ]
    assert silent == []


def test_an_inventory_file_demands_its_version() -> None:
    assert inventory_schema()["required"] == ["version"]
