"""The door of this room: a profile with its parents, overlays, overrides, inventory and hosts, read and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sgdeploy.paths import is_file
from sgdeploy.profile import overrides as sets
from sgdeploy.profile import secret_refs
from sgdeploy.profile.anchor import anchor
from sgdeploy.profile.inventory_load import load_inventory
from sgdeploy.profile.judge import pick_hosts, validate
from sgdeploy.profile.layers import Layers
from sgdeploy.profile.messages import dotted
from sgdeploy.profile.nodes import Node, plain
from sgdeploy.profile.places import Places
from sgdeploy.profile.topologies import written

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath, Problem
    from sgdeploy.profile.inventory import Host, Inventory
    from sgdeploy.profile.topologies import Profile


@dataclass(frozen=True)
class Draft:
    """A profile as far as it could be understood.

    Attributes:
        path: as the user gave it.
        tree: the merged plain values (secrets as ``Secret``, references to files absolute); {} where nothing was read.
        places: where each value of the tree stands; below ``inventory``, also where that is a file of its own.
        profile: the validated profile, None where it is wrong.
        inventory: hosts and groups (empty where none is named), None where it is wrong.
        problems: everything found, each with its place, in the order of files and lines.
        files: every file that was read, the profile first.
        base_dir: absolute folder of the profile.
        hosts: hosts of each instance in order, by the path of its ``hosts`` key, and of the router by that of its
            ``host``; left out where not all are known.
    """

    path: Path
    tree: dict[str, Any]
    places: Places
    profile: Profile | None
    inventory: Inventory | None
    problems: tuple[Problem, ...]
    files: tuple[Path, ...]
    base_dir: Path
    hosts: Mapping[KeyPath, tuple[Host, ...]] = field(default_factory=dict)


def draft(path: Path, overrides: Sequence[str] = (), overlays: Sequence[Path] = ()) -> Draft:
    """Read and judge a profile; whatever is wrong in the files comes back as problems and is never raised.

    Args:
        path: the profile.
        overrides: ``a.b=VALUE`` texts, the later ones win.
        overlays: profiles laid over it, the later ones win; a bare word names one that ships.
    """
    layers = Layers(absolute=path.is_absolute())
    root = layers.profile(path)
    for overlay in overlays:
        root = layers.overlay(root, overlay)
    root, found = _override(root, overrides)
    root, secrets = secret_refs.resolve(anchor(root))
    tree: dict[str, Any] = plain(root)
    loaded = load_inventory(root.child("inventory"), layers)
    profile, wrong = validate(tree)
    hosts, lost = pick_hosts(tree, loaded)
    places = Places(_with_inventory(root, loaded.node))
    known = {problem.place for problem in (*layers.problems, *found, *map(places.place, secrets))}
    wrong = [places.place(problem) for problem in wrong if layers.complete or problem.code != "key-missing"]
    found += [
        *secrets,
        *loaded.problems,
        *(one for one in wrong if one.place not in known or one.code == "key-missing"),
        *lost,
    ]
    problems = [places.place(_said_empty(problem, root)) for problem in (*layers.problems, *found)]
    return Draft(
        path=path,
        tree=tree,
        places=places,
        profile=None if any(problem.level == "error" for problem in (*secrets, *layers.problems)) else profile,
        inventory=loaded.inventory,
        problems=_in_order(problems, layers.names),
        files=tuple(dict.fromkeys((*layers.files, *loaded.files, *_host_files(tree)))),
        base_dir=path.absolute().parent,
        hosts=hosts,
    )


def _with_inventory(root: Node, inventory: Node | None) -> Node:
    """Give the tree with the content of the inventory at its key, which keeps its place in the profile."""
    key = root.child("inventory")
    if inventory is None or key is None or not isinstance(root.content, dict):
        return root
    return replace(root, content={**root.content, "inventory": replace(key, content=inventory.content)})


def _override(root: Node, overrides: Sequence[str]) -> tuple[Node, list[Problem]]:
    problems: list[Problem] = []
    for number, text in enumerate(overrides, start=1):
        override, found = sets.parse(text, number, Path.cwd())
        problems += found
        if override is not None:
            root, problem = sets.apply(root, override)
            problems += [] if problem is None else [problem]
    return root, problems


def _said_empty(problem: Problem, root: Node) -> Problem:
    """Say of a needed key that is there without a value that it is empty, not that it is missing."""
    node = root.at(problem.path) if problem.code == "key-missing" else None
    if node is None or node.content is not None:
        return problem
    return replace(problem, message=f"`{dotted(problem.path)}` is empty, but it is needed")


def _in_order(problems: Sequence[Problem], names: Sequence[str]) -> tuple[Problem, ...]:
    order = {name: index for index, name in enumerate(dict.fromkeys(names))}

    def position(problem: Problem) -> tuple[int, str, int, int]:
        place = problem.place
        if place is None:
            return (-1, "", 0, 0)
        return (order.get(place.file, len(order)), place.file, place.line, place.column)

    return tuple(sorted(dict.fromkeys(problems), key=position))


def _host_files(tree: Mapping[str, Any]) -> list[Path]:
    specs = [instance.get("hosts") for _, instance in written(tree)]
    files = [spec["file"] for spec in specs if isinstance(spec, dict) and isinstance(spec.get("file"), str)]
    return [path for path in map(Path, files) if is_file(path)]
