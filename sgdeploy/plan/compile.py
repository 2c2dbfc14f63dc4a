"""The door of this room: a profile's path in, a checked plan out, or every problem of every file at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgdeploy.engine.catalogue import ENGINE, ROUTER, Catalogue, Program, catalogue
from sgdeploy.errors import ProfileError
from sgdeploy.plan.build import build_plan
from sgdeploy.plan.check_engine import check_engine, check_instance
from sgdeploy.plan.check_hosts import apart, check_hosts
from sgdeploy.plan.check_model import check_model
from sgdeploy.plan.check_places import check_places
from sgdeploy.plan.check_ports import check_ports
from sgdeploy.plan.check_router import check_router
from sgdeploy.plan.check_sizes import check_sizes
from sgdeploy.plan.check_split import check_split
from sgdeploy.plan.environment import reserved_problems
from sgdeploy.plan.flags import ENGINE_RULES, ROUTER_FLAGS, ROUTER_RULES, Layer, check_layer, sections
from sgdeploy.plan.layout import Context, Layout, Wanted, lay_out
from sgdeploy.plan.model import Plan
from sgdeploy.plan.routing import Routing, lay_out_router
from sgdeploy.platforms.base import Platform
from sgdeploy.platforms.registry import kinds, platform
from sgdeploy.problems import KeyPath, Problem
from sgdeploy.profile.judge import ROUTER_HOST
from sgdeploy.profile.load import Draft, draft
from sgdeploy.profile.router_schema import Router
from sgdeploy.profile.schema import Engine
from sgdeploy.profile.suggest import did_you_mean
from sgdeploy.profile.topologies import instances

ROUTER_VERSION: str = Router.model_fields["version"].default
"""Version whose flags are taken where a profile names none."""


@dataclass(frozen=True)
class Made:
    """What a plan was written out from.

    Attributes:
        context: what all instances share.
        layouts: the instances.
        routing: the router, None where there is none.
    """

    context: Context
    layouts: tuple[Layout, ...]
    routing: Routing | None


@dataclass(frozen=True)
class Compiled:
    """What a profile compiles to.

    Attributes:
        plan: every process of the deployment.
        draft: the profile as it was read, for places and origins.
        warnings: problems that stop nothing, in the order of their places.
        made: what the plan was written out from.
    """

    plan: Plan
    draft: Draft
    warnings: tuple[Problem, ...]
    made: Made


@dataclass(frozen=True)
class _Read:
    """What can be told of a tree whatever else is wrong with it; None where it cannot."""

    catalogue: Catalogue | None
    router_catalogue: Catalogue | None
    platform: Platform | None
    layers: Mapping[KeyPath, Layer]
    problems: tuple[Problem, ...]


def compile_profile(path: Path, overrides: Sequence[str] = (), overlays: Sequence[Path] = ()) -> Compiled:
    """Read, check and plan a profile.

    Args:
        path: the profile.
        overrides: ``a.b=value`` texts, as given to ``--set``.
        overlays: profiles laid over it, in order.

    Raises:
        ProfileError: with every error and warning of the profile, its parents, inventory and plan, by place.
    """
    read = draft(path, overrides, overlays)
    planned, found = plan_draft(read)
    problems = [read.places.place(problem) for problem in clean([*read.problems, *found])]
    problems.sort(key=lambda problem: _position(problem, read.files))
    if planned is None or any(problem.level == "error" for problem in problems):
        raise ProfileError(problems)
    return Compiled(planned[0], read, tuple(problems), planned[1])


def plan_draft(read: Draft) -> tuple[tuple[Plan, Made] | None, list[Problem]]:
    """Plan what was read as far as possible; there is no plan where an error stands in its way."""
    known = _read(read.tree)
    problems = list(known.problems)
    if read.profile is None or known.catalogue is None or known.platform is None:
        return None, problems
    context = Context(read.profile, known.platform, known.catalogue, known.router_catalogue, known.layers)
    problems += check_engine(context)
    wanted = [
        Wanted(spot, spec, read.hosts.get((*spot.path, "hosts"), ())) for spot, spec in instances(read.profile).items()
    ]
    peopled = [instance for instance in wanted if instance.hosts]
    hosts = read.hosts.get(ROUTER_HOST, ())
    problems += check_hosts(peopled, hosts)
    layouts: list[Layout] = []
    for instance in peopled:
        layouts.append(lay_out(context, instance, layouts))
    routing = lay_out_router(context, context.router, hosts[0], layouts) if context.router and hosts else None
    problems += _check_layouts(context, layouts, routing)
    # Instances that share a host without cores of their own may want the same ports as well; that is the same mistake.
    problems += check_ports(layouts, routing) if apart(peopled) else []
    complete = len(peopled) == len(wanted) and (context.router is None or routing is not None)
    if read.inventory is None or not complete or any(p.level == "error" for p in problems):
        return None, problems
    plan = build_plan(context, read.inventory, layouts, routing)
    problems += check_places(plan.processes, {layout.unit: layout for layout in layouts})
    return (plan, Made(context, tuple(layouts), routing)), problems


def clean(problems: Sequence[Problem]) -> list[Problem]:
    """Drop what is said twice, and a warning about a value that is wrong anyway."""
    wrong = {problem.path for problem in problems if problem.level == "error" and problem.path}
    kept = {
        (problem.message, problem.path, problem.place): problem
        for problem in problems
        if problem.level == "error" or problem.path not in wrong
    }
    return list(kept.values())


def _check_layouts(context: Context, layouts: Sequence[Layout], routing: Routing | None) -> list[Problem]:
    problems: list[Problem] = []
    for layout in layouts:
        problems += check_sizes(layout, context.platform, context.profile.model.layers)
        problems += check_model(layout)
        problems += check_instance(context, layout)
    problems += check_split(context.catalogue, layouts)
    return problems if routing is None else problems + check_router(context, routing, layouts)


def _read(tree: Mapping[str, Any]) -> _Read:
    """Check what needs no valid profile: the words for programs and platform, settings, flags, variable names."""
    problems: list[Problem] = []
    engine = _catalogue(tree.get("engine"), ENGINE, Engine().version, problems)
    router = _catalogue(tree["router"], ROUTER, ROUTER_VERSION, problems) if "router" in tree else None
    hardware = _platform(tree, problems)
    layers: dict[KeyPath, Layer] = {}
    for path, mapping in sections(tree, "flags").items():
        flags, rules = (router, ROUTER_RULES) if path == ROUTER_FLAGS else (engine, ENGINE_RULES)
        if flags is not None:
            layers[path], wrong = check_layer(flags, rules, mapping, path)
            problems += wrong
    for path, mapping in sections(tree, "env").items():
        problems += reserved_problems(mapping, path)
    return _Read(engine, router, hardware, layers, tuple(problems))


def _catalogue(section: Any, program: Program, default: str, problems: list[Problem]) -> Catalogue | None:
    """Read the catalogue that a section's ``version`` names; an unknown one is a problem."""
    version = section.get("version") if isinstance(section, Mapping) else None
    if version is None:
        version = default
    if version in program.versions:
        return catalogue(version, program)
    if not isinstance(version, str):
        return None
    problems.append(_unknown(f"{program.name} version", version, program.versions, (program.name, "version")))
    # The flags are looked at all the same, with the program that was probably meant.
    return catalogue(did_you_mean(version, program.versions) or program.versions[-1], program)


def _platform(tree: Mapping[str, Any], problems: list[Problem]) -> Platform | None:
    kind, settings = tree.get("platform"), tree.get("platform_settings", {})
    if not isinstance(kind, str) or not isinstance(settings, Mapping):
        return None
    if kind not in kinds():
        problems.append(_unknown("platform", kind, kinds(), ("platform",)))
        return None
    found, wrong = platform(kind).configure(settings)
    problems += wrong
    return found


def _unknown(what: str, word: str, known: Sequence[str], path: KeyPath) -> Problem:
    near = did_you_mean(word, known)
    hint = f"did you mean `{near}`?" if near else f"one of: {', '.join(known)}"
    return Problem(f"unknown {what} `{word}`", hint, path, code=f"{what.replace(' ', '-')}-unknown")


def _position(problem: Problem, files: Sequence[Path]) -> tuple[int, int, int]:
    """Order problems by file as the files were read, then by line; what the command line set comes last."""
    place = problem.place
    if place is None:
        return (-1, 0, 0)
    file = Path(place.file).absolute()
    return (files.index(file) if file in files else len(files), place.line, place.column)
