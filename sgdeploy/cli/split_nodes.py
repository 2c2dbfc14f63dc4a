"""``sgdeploy split-weights --on-nodes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgdeploy.cli.run import run
from sgdeploy.cli.split_request import arguments, chosen, how_to_write, request_for
from sgdeploy.cli.targets import compiled
from sgdeploy.cli.work import owner
from sgdeploy.deploy.split_nodes import Order, plan_on_nodes, split_on_nodes
from sgdeploy.errors import UsageError
from sgdeploy.remote.connect import connector
from sgdeploy.weights.cut.deployment import deployments

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.cli.split_weights import Options
    from sgdeploy.console.console import Console

_WORKERS = 4


def on_nodes(desk: Desk, options: Options, console: Console) -> None:
    """Let every node make its part, or show the plan.

    Raises:
        UsageError: words that do not fit together.
        SgdeployError: as the use cases do.
    """
    order = _order(desk, options)
    if options.plan:
        console.split_plan(run(desk, console, plan_on_nodes(order, connector(), console.tell)).report, None)
        return
    with console.splitting():
        run(desk, console, split_on_nodes(order, connector(), console.tell))


def _order(desk: Desk, options: Options) -> Order:
    if options.profile is None:
        raise UsageError("--on-nodes needs a deployment", hint="pass --profile")
    if options.ranks is not None or options.node_rank is not None or options.nnodes is not None:
        hint = "leave --ranks, --node-rank and --nnodes out"
        raise UsageError("--on-nodes gives every node the files of its own ranks", hint=hint)
    if options.out is None and not options.plan:
        raise UsageError("--out is missing", hint="name the folder that is written on each node")
    for option, path in (("--model", options.model), ("--out", options.out)):
        if path is not None and not path.is_absolute():
            raise UsageError(f"{option} {path} is a path on the nodes and must be absolute", hint="begin it with /")
    odd = next((mark for mark in "[]*?" if mark in str(options.out or "")), None)
    if odd is not None:
        raise UsageError(f"--out contains '{odd}': SGLang passes it to glob and will not find the files")
    plan = compiled(desk, options.profile, options).plan
    found = chosen(options, deployments(plan))
    units = {each.unit for each in found}
    nodes = {each.host: each.node_rank or 0 for each in plan.processes if each.unit in units}
    request = request_for(options, found[0])
    return Order(plan, nodes, request, how_to_write(options, _WORKERS), owner(desk), arguments(desk))
