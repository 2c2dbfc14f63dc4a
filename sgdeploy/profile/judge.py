"""Judging a merged tree: against the schema of its topology, and its hosts against the inventory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sgdeploy.problems import Problem
from sgdeploy.profile.messages import schema_problems
from sgdeploy.profile.schema import LATER_TOPOLOGIES, TOPOLOGIES, NativeProfile, OtherProfile, Profile
from sgdeploy.profile.select import select
from sgdeploy.profile.suggest import did_you_mean

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath
    from sgdeploy.profile.inventory import Host
    from sgdeploy.profile.inventory_load import Loaded


def validate(tree: Mapping[str, Any]) -> tuple[Profile | None, list[Problem]]:
    """Check a tree against the schema.

    Returns:
        The profile, or None where there is a problem, and the problems. Those of an inventory that stands in the
        profile are left to the inventory's own check.
    """
    values = dict(tree)
    word = tree.get("topology")
    problems: list[Problem] = []
    model: type[NativeProfile | OtherProfile] = NativeProfile
    if isinstance(word, str) and word not in TOPOLOGIES:
        problems.append(_topology(word))
        if word in LATER_TOPOLOGIES or "native" not in tree:
            model = OtherProfile
        values["topology"] = "native"
    try:
        profile = model.model_validate(values)
    except ValidationError as error:
        inline = isinstance(tree.get("inventory"), dict)
        found = schema_problems(error, model, values)
        problems += [problem for problem in found if not (inline and problem.path[:1] == ("inventory",))]
        return None, problems
    return (profile if isinstance(profile, NativeProfile) and not problems else None), problems


def _topology(word: str) -> Problem:
    known = ", ".join(TOPOLOGIES)
    if word in LATER_TOPOLOGIES:
        text, hint = f"topology `{word}` is not in this release", f"this release plans: {known}"
    else:
        guess = did_you_mean(word, TOPOLOGIES)
        text, hint = f"unknown topology `{word}`", f"did you mean `{guess}`?" if guess else f"one of: {known}"
    return Problem(text, hint, ("topology",), code="topology-unknown")


def pick_hosts(tree: Mapping[str, Any], loaded: Loaded) -> tuple[dict[KeyPath, tuple[Host, ...]], list[Problem]]:
    """Find the hosts of every instance, by the path of its ``hosts`` key, also where other keys are wrong.

    An instance is left out where its hosts cannot all be known (a problem among them, a broken inventory).
    """
    hosts: dict[KeyPath, tuple[Host, ...]] = {}
    problems: list[Problem] = []
    for path, spec in _specs(tree.get("native"), ("native",)):
        picked, found = select(loaded.partial, spec, path)
        if not loaded.sure:
            found = tuple(problem for problem in found if problem.code not in {"host-unknown", "host-beyond"})
        problems += found
        wrong = any(problem.level == "error" for problem in found)
        if picked and loaded.sure and not wrong and _whole(spec):
            hosts[path] = picked
    return hosts, problems


def _specs(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if not isinstance(value, dict):
        return
    if "hosts" in value:
        spec = value["hosts"]
        if isinstance(spec, (str, list)) or (isinstance(spec, dict) and isinstance(spec.get("file"), str)):
            yield (*path, "hosts"), spec
    elif len(path) == 1:
        for name, item in value.items():
            yield from _specs(item, (*path, name))


def _whole(spec: Any) -> bool:
    return not isinstance(spec, list) or all(isinstance(item, str) for item in spec)
