"""What decided about the processes of each unit of a plan, in one form for ranks, tokenizers and router."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.plan.explain import derived
from sgdeploy.plan.flags import ENGINE_RULES, ROUTER_RULES, Layer, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sgdeploy.engine.catalogue import Catalogue
    from sgdeploy.plan.compile import Made
    from sgdeploy.plan.environment import Environment
    from sgdeploy.platforms.base import Launch
    from sgdeploy.problems import KeyPath
    from sgdeploy.profile.inventory import Host


@dataclass(frozen=True)
class Unit:
    """One unit.

    Attributes:
        path: where its section stands; for a tokenizer that of its instance.
        catalogue: flags of its program.
        rules: which of them the plan owns.
        owned: the same → the keys that decide.
        layers: where its flags come from, lowest first.
        env: its environment with its layers.
        launch: what the platform knows of it; a ``Shape`` for an instance.
    """

    path: KeyPath
    catalogue: Catalogue
    rules: Rules
    owned: Mapping[str, derived.Keys]
    layers: tuple[Layer, ...]
    env: Environment
    launch: Launch


def units(made: Made) -> dict[str, Unit]:
    """Give all units of a plan by their selectors."""
    return dict(_units(made))


def hosts(made: Made) -> dict[str, Host]:
    """Give all hosts of a plan by their names."""
    found = {host.name: host for layout in made.layouts for host in layout.hosts}
    return found if made.routing is None else {**found, made.routing.host.name: made.routing.host}


def _units(made: Made) -> Iterator[tuple[str, Unit]]:
    context, routing = made.context, made.routing
    engine = context.catalogue
    for one in made.layouts:
        yield one.unit, Unit(one.path, engine, ENGINE_RULES, derived.ENGINE_FLAGS, one.layers, one.env, one.shape)
    if routing is None:
        return
    launch = context.launch("tokenizer")
    for server in routing.tokenizers:
        path, keys = server.layout.path, derived.TOKENIZER_FLAGS
        yield server.unit, Unit(path, engine, ENGINE_RULES, keys, server.layers, server.env, launch)
    if context.router_catalogue is not None:
        rules, keys, launch = ROUTER_RULES, derived.ROUTER_FLAGS, context.launch("router")
        path = ("router",)
        yield "router", Unit(path, context.router_catalogue, rules, keys, routing.layers, routing.env, launch)
