"""Reading the inventory that a profile names, or holds itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sgdeploy.problems import Problem
from sgdeploy.profile import secret_refs
from sgdeploy.profile.anchor import anchor
from sgdeploy.profile.inventory import Inventory
from sgdeploy.profile.inventory_build import build
from sgdeploy.profile.inventory_schema import InventoryFile, InventorySection
from sgdeploy.profile.messages import schema_problems
from sgdeploy.profile.nodes import Node, plain
from sgdeploy.profile.places import Places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sgdeploy.problems import KeyPath
    from sgdeploy.profile.layers import Layers

_TOP = "inventory"


@dataclass(frozen=True)
class Loaded:
    """An inventory as far as it could be understood.

    Attributes:
        inventory: None where anything is wrong with it.
        partial: what could be understood.
        sure: whether ``partial`` lists every host and group, so that a name outside it is a mistake.
        problems: with places where it is a file of its own, else with paths in the profile.
        files: the host files that it names.
        node: its tree, None where there is none or it could not be read.
    """

    inventory: Inventory | None
    partial: Inventory
    sure: bool
    problems: tuple[Problem, ...] = ()
    files: tuple[Path, ...] = ()
    node: Node | None = None


def load_inventory(node: Node | None, layers: Layers) -> Loaded:
    """Read what the profile's ``inventory`` key says; an empty inventory where there is no such key.

    Args:
        node: the value of the key, anchored, secrets resolved.
        layers: reads the file.
    """
    if node is None or node.content is None:
        return Loaded(Inventory(), Inventory(), sure=True)
    if isinstance(node.content, dict):
        return _judge(node, InventorySection, ())
    broken = Loaded(None, Inventory(), sure=False)
    if not isinstance(node.content, str) or not node.content:
        return broken  # the profile's own schema tells what is wrong
    path = Path(node.content)
    read = layers.parse(path, layers.shown(path), node.place)
    if read is None or not isinstance(read.content, dict):
        return broken
    kept = {key: item for key, item in read.content.items() if key not in InventoryFile.reader_keys}
    top, problems = secret_refs.resolve(anchor(replace(read, content=kept)))
    loaded = _judge(top, InventoryFile, problems)
    places = Places(top)
    placed = (replace(places.place(problem), path=(_TOP, *problem.path)) for problem in loaded.problems)
    return replace(loaded, problems=tuple(placed))


def _judge(node: Node, model: type[InventorySection], found: Sequence[Problem]) -> Loaded:
    """Validate and build; what is wrong is cut out, so that the rest can still be used for further checks."""
    tree: dict[str, Any] = plain(node)
    problems = list(found)
    cut: set[KeyPath] = set()
    try:
        section = model.model_validate(tree)
    except ValidationError as error:
        wrong = schema_problems(error, model, tree)
        told = {problem.path for problem in found}
        problems += [problem for problem in wrong if problem.path not in told]
        cut = {problem.path[:-1] if problem.code == "key-missing" else problem.path for problem in wrong} - {()}
        section = _rest(tree, cut)
    inventory, wrong_hosts, files = build(section)
    problems += wrong_hosts
    sure = not wrong_hosts and not any(path[0] in {"groups", "hosts"} for path in cut)
    if any(problem.level == "error" for problem in problems):
        return Loaded(None, inventory, sure, tuple(_below(model, problems)), files, node)
    return Loaded(inventory, inventory, sure, tuple(_below(model, problems)), files, node)


def _below(model: type[InventorySection], problems: Sequence[Problem]) -> list[Problem]:
    """Give paths from the top of the profile, where the inventory stands in it."""
    if model is InventoryFile:
        return list(problems)
    return [replace(problem, path=(_TOP, *problem.path)) for problem in problems]


def _rest(tree: dict[str, Any], cut: set[KeyPath]) -> InventorySection:
    try:
        return InventorySection.model_validate(_without(tree, (), cut))
    except ValidationError:
        return InventorySection()


def _without(value: Any, path: KeyPath, cut: set[KeyPath]) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if (*path, key) not in cut}
        return {key: _without(item, (*path, key), cut) for key, item in kept.items()}
    if isinstance(value, list):
        kept_items = [(index, item) for index, item in enumerate(value) if (*path, index) not in cut]
        return [_without(item, (*path, index), cut) for index, item in kept_items]
    return value
