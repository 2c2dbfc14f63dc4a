"""What every explanation needs at hand: the plan, what it was made from, and where the keys of the profile stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, create_model

from sgdeploy.plan.explain.said import Cause, Said, causes
from sgdeploy.plan.explain.units import Unit, hosts, units
from sgdeploy.platforms.registry import SETTINGS_KEY, platform
from sgdeploy.profile.messages import dotted
from sgdeploy.profile.topologies import PROFILES
from sgdeploy.profile.vocabulary import Schema

if TYPE_CHECKING:
    from sgdeploy.plan.compile import Compiled
    from sgdeploy.plan.model import Process
    from sgdeploy.plan.part import Part
    from sgdeploy.platforms.base import Launch, Platform
    from sgdeploy.problems import KeyPath

Probe = Callable[["Platform", "Launch"], Any]
"""Asks a platform for one value."""

_LAUNCH_KEYS: Mapping[str, str] = {
    "by_rank": "engine.launch",
    "numa_copies": "engine.numa_copies",
    "tokenizer_apart": "router.tokenizer",
    "nodes": "*.hosts",
    "tp": "*.parallel.tp",
    "pp": "*.parallel.pp",
    "dp": "*.parallel.dp",
    "ep": "*.parallel.ep",
    "leader_address": "*.hosts",
    "rendezvous_port": "*.rendezvous.port",
}
"""What a platform knows of an instance → the key that it comes from."""


class Inquiry:
    """One question about a plan."""

    def __init__(self, compiled: Compiled, part: Part) -> None:
        """Keep what is asked about.

        Args:
            compiled: the profile and its plan.
            part: which processes are of interest.
        """
        self.compiled = compiled
        self.places = compiled.draft.places
        self.tree = compiled.draft.tree
        self.platform = compiled.made.context.platform
        self.processes: Sequence[Process] = part.processes(compiled.plan)
        self._influences: dict[tuple[int, str], tuple[Cause, ...]] = {}

    @cached_property
    def units(self) -> dict[str, Unit]:
        """All units by their selectors."""
        return units(self.compiled.made)

    @cached_property
    def schema(self) -> Schema:
        """The schema of this profile, with its platform's settings and its inventory."""
        model = _whole(self.compiled.plan.topology, self.platform.kind)
        inline = isinstance(self.tree.get("inventory"), dict)
        return Schema(model, self.tree if inline else {**self.tree, "inventory": {}})

    @cached_property
    def hosts(self) -> Mapping[str, Any]:
        """All hosts by their names."""
        return hosts(self.compiled.made)

    def path(self, key: str, unit: Unit) -> KeyPath:
        """Turn a key of ``derived`` into a path of the profile."""
        first, *rest = key.split(".")
        return (*unit.path, *rest) if first == "*" else (first, *rest)

    def because(self, unit: Unit, host: str, keys: Sequence[str]) -> tuple[Said, ...]:
        """Give the keys that a value follows from, each with what it overrode or with its default."""
        found: list[Said] = []
        for key in keys:
            if key.startswith("@"):
                found += self.detail(host, key[1:])
            else:
                path = self.path(key, unit)
                if self.schema.has(path):
                    found += causes(self.places, path, self.default(path))
        return tuple({repr(word): word for word in found}.values())

    def detail(self, host: str, name: str) -> tuple[Said, ...]:
        """Give what decides about a detail of a host: its own entry, the inventory's default, or its name."""
        inventory = self.compiled.draft.inventory
        paths: list[KeyPath] = [("inventory", *path) for path in inventory.where(host, name)] if inventory else []
        set_ones = [path for path in paths if self.places.key(path) is not None]
        if not set_ones:
            return (Said(f"{name} of {host}", standing="cause", note="not in the inventory, which leaves its name"),)
        return causes(self.places, set_ones[0], "")

    def default(self, path: KeyPath) -> str:
        """Say in words what counts where a key is not set."""
        return self.schema.describe(path)

    def influences(self, unit: Unit, name: str, probe: Probe) -> tuple[Cause, ...]:
        """Find the keys that a platform's value follows from, by asking again with each of them changed.

        Args:
            unit: whose value it is.
            name: of the value; what was found is kept by it.
            probe: asks for the value.
        """
        at = (id(unit), name)
        if at not in self._influences:
            self._influences[at] = self._asked_again(unit, probe)
        return self._influences[at]

    def _asked_again(self, unit: Unit, probe: Probe) -> tuple[Cause, ...]:
        value = probe(self.platform, unit.launch)
        found = [path for path, other in self._other_settings if probe(other, unit.launch) != value]
        for name, key in _LAUNCH_KEYS.items():
            if name in {field.name for field in fields(unit.launch)}:
                other = replace(unit.launch, **{name: _changed(getattr(unit.launch, name))})
                if probe(self.platform, other) != value:
                    found.append(self.path(key, unit))
        if probe(self.platform, replace(unit.launch, model_path=_changed(unit.launch.model_path))) != value:
            found.append(self._model(unit))
        return tuple(Cause(dotted(path), self.places.key(path)) for path in dict.fromkeys(found))

    def _model(self, unit: Unit) -> KeyPath:
        """Find the key that says where a unit's weights are: its own, else that of all."""
        own: KeyPath = (*unit.path, "model_path")
        return ("model", "path") if self.places.key(own) is None else own

    @cached_property
    def _other_settings(self) -> list[tuple[KeyPath, Platform]]:
        """The platform as it would be without each of its settings."""
        kind, settings = platform(self.platform.kind), self.tree.get(SETTINGS_KEY, {})
        others = ((path, kind.configure(_without(settings, path))[0]) for path in _leaves(settings))
        return [((SETTINGS_KEY, *path), other) for path, other in others if other is not None]


@lru_cache(maxsize=8)
def _whole(topology: str, kind: str) -> type[BaseModel]:
    settings = platform(kind).settings_model
    return create_model("Profile", __base__=PROFILES[topology], platform_settings=(settings, settings()))


def _leaves(value: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*above, key))
    elif above:
        yield above


def _without(settings: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    key, *rest = path
    if not rest:
        return {name: value for name, value in settings.items() if name != key}
    return {name: _without(value, tuple(rest)) if name == key else value for name, value in settings.items()}


def _changed(value: Any) -> Any:
    """Give another value of the same type."""
    if isinstance(value, bool):
        return not value
    return f"{value}0" if isinstance(value, str) else (value or 0) + 1
