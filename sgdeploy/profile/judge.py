"""Judging a merged tree: against the schema of its topology, and its hosts against the inventory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sgdeploy.problems import Problem
from sgdeploy.profile.messages import got, schema_problems
from sgdeploy.profile.schema import ProfileBase
from sgdeploy.profile.select import select
from sgdeploy.profile.suggest import did_you_mean
from sgdeploy.profile.topologies import PROFILES, ROLE_KEYS, OtherProfile, Profile, TwoPrefills, likely, written

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath
    from sgdeploy.profile.inventory import Host
    from sgdeploy.profile.inventory_load import Loaded

ROUTER_HOST: KeyPath = ("router", "host")
"""Where the router's host stands; it is picked like the hosts of an instance."""


def validate(tree: Mapping[str, Any]) -> tuple[Profile | None, list[Problem]]:
    """Check a tree against the schema of its topology, or of the one that is probably meant.

    Returns:
        The profile, or None where there is a problem, and the problems. Those of an inventory that stands in the
        profile are left to the inventory's own check.
    """
    word, problems = _topology(tree)
    model: type[Profile | OtherProfile] = OtherProfile if word is None else PROFILES[word]
    values = dict(tree) if "topology" not in tree else {**tree, "topology": word}
    try:
        profile = model.model_validate(values)
    except ValidationError as error:
        inline = isinstance(tree.get("inventory"), dict)
        found = [_with_topology(one, word) for one in schema_problems(error, model, values, partial(_elsewhere, word))]
        problems += [problem for problem in found if not (inline and problem.path[:1] == ("inventory",))]
        return None, _of_overlay(tree, problems)
    return (None if problems or isinstance(profile, OtherProfile) else profile), problems


def _of_overlay(tree: Mapping[str, Any], problems: list[Problem]) -> list[Problem]:
    """Say once what a file is that has none of the keys that every profile needs, not of each that it lacks it."""
    needed = {(key,) for key, field in ProfileBase.model_fields.items() if field.is_required()} | {("topology",)}
    missing = {problem.path for problem in problems if problem.code == "key-missing"}
    if not tree or not needed <= missing:
        return problems
    names = "`, `".join(str(key) for (key,) in sorted(needed))
    message = f"this is an overlay, which changes a profile, or an unfinished profile: it has none of `{names}`"
    hint = "pass it with --overlay beside a profile; a profile begins with version: 1"
    rest = [problem for problem in problems if problem.code != "key-missing" or len(problem.path) > 1]
    return [Problem(message, hint, at="key", code="overlay-alone"), *rest]


def _topology(tree: Mapping[str, Any]) -> tuple[str | None, list[Problem]]:
    """Give the topology to check against, None where it cannot be told, and what is wrong with the word."""
    word, path = tree.get("topology"), ("topology",)
    if isinstance(word, str) and word in PROFILES:
        return word, []
    meant, known = likely(tree), ", ".join(PROFILES)
    if word is None:
        return meant or "native", []  # the schema misses it, and knows whether another key was meant to be it
    if not isinstance(word, str):
        words = "`" + "`, `".join(PROFILES) + "`"
        return meant, [Problem(f"`topology` must be one of {words}, got {got(word)}", None, path, code="value-range")]
    guess = did_you_mean(word, PROFILES)
    hint = f"did you mean `{guess}`?" if guess else f"one of: {known}"
    return guess or meant, [Problem(f"unknown topology `{word}`", hint, path, code="topology-unknown")]


def _with_topology(problem: Problem, topology: str | None) -> Problem:
    """Say which topology to write where none is written."""
    missing = problem.code == "key-missing" and problem.path == ("topology",)
    return replace(problem, hint=f"write topology: {topology}") if missing else problem


def _elsewhere(topology: str | None, path: KeyPath) -> str | None:
    """Say why a key that other topologies have is not known here."""
    written = str(path[-1])
    word = written if written in ROLE_KEYS else did_you_mean(written, ROLE_KEYS)
    if len(path) == 1 and word is not None:
        homes = "` and `".join(name for name, model in PROFILES.items() if word in model.model_fields)
        meant = "" if word == written else f"did you mean `{word}`? "
        return f"{meant}`{word}` belongs to topology `{homes}`; this profile says `{topology}`"
    if topology == "two-bucket-prefill" and path[:-1] == ("prefill",):
        names = "` and `".join(TwoPrefills.model_fields)
        return f"two-bucket-prefill has exactly the prefill instances `{names}`; `topology: pd` takes any number"
    return None


def pick_hosts(tree: Mapping[str, Any], loaded: Loaded) -> tuple[dict[KeyPath, tuple[Host, ...]], list[Problem]]:
    """Find the hosts of every instance and of the router, by the path of the key that names them.

    Also where other keys are wrong. One is left out where its hosts cannot all be known (a problem among them, a
    broken inventory).
    """
    hosts: dict[KeyPath, tuple[Host, ...]] = {}
    problems: list[Problem] = []
    for path, spec in _specs(tree):
        picked, found = select(loaded.partial, spec, path)
        if not loaded.sure:
            found = tuple(problem for problem in found if problem.code not in {"host-unknown", "host-beyond"})
        if path == ROUTER_HOST and len(picked) > 1:
            text = f"the router runs on one host, `{spec}` names {len(picked)}"
            found = (*found, Problem(text, f"name one of them, such as {picked[0].name}", path, code="router-host"))
        problems += found
        wrong = any(problem.level == "error" for problem in found)
        if picked and loaded.sure and not wrong and _whole(spec):
            hosts[path] = picked
    return hosts, problems


def _specs(tree: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Any]]:
    for spot, instance in written(tree):
        spec = instance.get("hosts")
        if isinstance(spec, (str, list)) or (isinstance(spec, dict) and isinstance(spec.get("file"), str)):
            yield (*spot.path, "hosts"), spec
    router = tree.get("router")
    if isinstance(router, Mapping) and isinstance(router.get("host"), str):
        yield ROUTER_HOST, router["host"]


def _whole(spec: Any) -> bool:
    return not isinstance(spec, list) or all(isinstance(item, str) for item in spec)
