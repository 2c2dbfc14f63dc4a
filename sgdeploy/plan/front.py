"""The laid-out router and the servers beside it → their processes, written out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgdeploy.plan.command import activation, command, engine_start, flag_words, model_words
from sgdeploy.plan.model import Health, Process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sgdeploy.plan.environment import Environment
    from sgdeploy.plan.layout import Context
    from sgdeploy.plan.model import EnvValue
    from sgdeploy.plan.routing import Routing, Tokenizer

ROUTER = "router"


def front_processes(context: Context, routing: Routing) -> Iterator[Process]:
    """Write out the servers beside the router, then the router."""
    for tokenizer in routing.tokenizers:
        yield _tokenizer(context, routing, tokenizer)
    yield _router(context, routing)


def _tokenizer(context: Context, routing: Routing, tokenizer: Tokenizer) -> Process:
    layout, launch = tokenizer.layout, context.launch("tokenizer")
    shown, secrets = flag_words(context.catalogue, tokenizer.flags)
    bootstrap = layout.ports.bootstrap or context.platform.bootstrap_ports.get("prefill")
    words = [
        *("--port", str(tokenizer.port), "--host", routing.host.address, "--nnodes", "1", "--node-rank", "0"),
        *("--dist-init-addr", layout.meeting, *model_words(context, layout.model_at(0))),
        *("--tp-size", "1", "--dp-size", "1"),
        *("--disaggregation-mode", layout.role, "--disaggregation-bootstrap-port", str(bootstrap)),
        *shown,
    ]
    run = command(engine_start(context, launch, None), words, tokenizer.unit, secrets)
    return Process(
        id=f"{context.profile.name}/{tokenizer.unit}",
        role="tokenizer",
        instance=tokenizer.name,
        host=routing.host.name,
        address=routing.host.address,
        leader=True,
        argv=run.argv,
        in_run_dir=run.in_run_dir,
        env=_env(context, routing, tokenizer.env),
        env_prepend=tokenizer.env.prepend,
        activate=activation(context, launch),
        cwd=context.profile.engine.cwd,
        listens={"http": tokenizer.port, "bootstrap": layout.ports.bootstrap},
        connects={"rendezvous": layout.meeting},
        log=f"{tokenizer.unit.replace('/', '-')}.log",
        wait_for=(layout.unit,),
        health=Health(milestones="engine", http="/health"),
        secret_config=run.secret_config,
    )


def _router(context: Context, routing: Routing) -> Process:
    spec = routing.spec
    python = spec.python or context.profile.engine.python
    start = (spec.binary,) if spec.binary else (python, "-m", "sglang_router.launch_router")
    words = ["--host", routing.host.address]
    if spec.port is not None:
        words += ["--port", str(spec.port)]
    words.append("--pd-disaggregation")
    for worker in routing.workers:
        words += [f"--{worker.role}", worker.url]
        words += [] if worker.bootstrap is None else [str(worker.bootstrap)]
    catalogue = context.router_catalogue
    words += [] if catalogue is None else catalogue.argv(routing.flags)
    return Process(
        id=f"{context.profile.name}/{ROUTER}",
        role="router",
        host=routing.host.name,
        address=routing.host.address,
        leader=True,
        argv=(*start, *words),
        env=_env(context, routing, routing.env),
        env_prepend=routing.env.prepend,
        activate=activation(context, context.launch("router")),
        cwd=context.profile.engine.cwd,
        cores=routing.cores if context.profile.node.pin else None,
        listens={"http": routing.port, "metrics": routing.metrics},
        connects={worker.unit: worker.url.removeprefix("http://") for worker in routing.workers},
        log=f"{ROUTER}.log",
        wait_for=tuple(worker.unit for worker in routing.workers),
        health=Health(milestones="router", http="/health"),
    )


def _env(context: Context, routing: Routing, env: Environment) -> dict[str, EnvValue]:
    own = context.platform.host_env(routing.host)
    return {**env.values, **{name: value for name, value in own.items() if name not in env.keys}}
