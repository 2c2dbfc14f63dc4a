"""The use case behind ``split-weights --on-nodes``: every node makes its own part, at the same time.

The headers travel here, the plan is made and proven here, and each node gets its part of it as a job. The nodes need
nothing but their python3; the weights never leave them.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sgdeploy.deploy.errand import Ended, Errand
from sgdeploy.deploy.events import HostState, Note, Outcome, SplitProgress, Step, Tell
from sgdeploy.deploy.fleet import open_fleet
from sgdeploy.deploy.lock import locked
from sgdeploy.deploy.options import Owner
from sgdeploy.errors import CancelledRunError, HostFault, PreflightError, ProcessFault, SgdeployError, StartupError
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.remote.base import Connector
from sgdeploy.remote.waits import to_the_end
from sgdeploy.weights.cut.targets import out_files, ranks_of_node
from sgdeploy.weights.cut.text import bytes_text
from sgdeploy.weights.disk import parcel
from sgdeploy.weights.disk.checkpoint import understand
from sgdeploy.weights.disk.refusals import Target, explain
from sgdeploy.weights.disk.request import Prepared, Request, prepare_with
from sgdeploy.weights.disk.split import How, Split
from sgdeploy.weights.errors import CheckpointError
from sgdeploy.weights.worker import headers, main
from sgdeploy.words import plural

FOLDER = "split-weights"
"""The run folder of this work, below the deployment's own on each host."""

HOST = "{host}"
"""In the output's path: the host's name."""

_PYTHON = ("python3", "-I", "-S", parcel.NAME)


@dataclass(frozen=True)
class Order:
    """What is to be split, and where.

    Attributes:
        plan: of the deployment.
        nodes: host → its node rank in its instance.
        request: what to split, for all ranks; model and target are paths on the nodes.
        how: files are written.
        owner: who runs the command.
        arguments: of the command, for the manifests.
    """

    plan: Plan
    nodes: Mapping[str, int]
    request: Request
    how: How
    owner: Owner
    arguments: tuple[str, ...]

    @property
    def hosts(self) -> tuple[PlanHost, ...]:
        """The hosts, with the run folder of this work."""
        chosen = (host for host in self.plan.hosts if host.host in self.nodes)
        return tuple(host.model_copy(update={"run_dir": f"{host.run_dir}/{FOLDER}"}) for host in chosen)

    def out(self, host: str) -> Path:
        """Give the output's path on a host."""
        return Path(str(self.request.target).replace(HOST, host))


async def plan_on_nodes(order: Order, connector: Connector, tell: Tell) -> Prepared:
    """Read the headers on every node, and plan; nothing is written beside the weights.

    Raises:
        CheckpointError: with every problem of the checkpoint and the wishes.
        PreflightError: hosts have other checkpoints than the first, or refused.
        RemoteError, LockedError, NodeError: as everywhere.
    """
    async with _at_work(order, connector) as errand:
        return await _plan(order, errand, tell)


async def split_on_nodes(order: Order, connector: Connector, tell: Tell) -> None:
    """Let every node make its part; an interruption ends all in an orderly way, and the next run goes on from there.

    Raises:
        CancelledRunError: interrupted.
        PreflightError: nodes refused: no space, foreign files, another plan's split.
        StartupError: the program failed on a node.
        CheckpointError, RemoteError, LockedError, NodeError: as ``plan_on_nodes``.
    """
    began = time.monotonic()
    async with _at_work(order, connector) as errand:
        prepared = await _plan(order, errand, tell)
        tell(Step(2, 2, f"write {plural(len(order.nodes), 'part')}, each on its own node"))
        latest: dict[str, SplitProgress] = {}
        try:
            ended = await errand.run(
                "split",
                lambda host: {"job.json": _job(order, prepared, host.host)},
                (*_PYTHON, "split", "job.json"),
                (main.RESULT,),
                lambda host, line: _hear(host, line, latest, tell),
            )
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            done = sum(event.ended for event in latest.values())
            message = f"interrupted: {done} of {plural(len(order.nodes), 'node')} done"
            raise CancelledRunError(message, hint="run the same command to go on") from error
        results = await errand.fetch(main.RESULT)
        _judge(order, prepared, ended, {host: _only(files) for host, files in results.items()})
    files = sum(event.of_files for event in latest.values())
    size = bytes_text(sum(event.of_bytes for event in latest.values()))
    message = f"{plural(files, 'file')}, {size} on {plural(len(order.nodes), 'node')} in {order.request.target}"
    tell(Outcome("split", message, time.monotonic() - began))


@asynccontextmanager
async def _at_work(order: Order, connector: Connector) -> AsyncIterator[Errand]:
    """Open and lock every host, without anything of an earlier run; afterwards nothing of ours is left there."""
    fleet = await open_fleet(connector, order.hosts)
    try:
        async with AsyncExitStack() as stack:
            for host in order.hosts:
                await stack.enter_async_context(locked(fleet, host, order.owner))
            errand = Errand(fleet, order.plan.name, order.plan.digest, order.owner)
            await errand.clean()
            try:
                yield errand
            finally:
                with suppress(SgdeployError):  # a host that is lost is cleaned by the next run
                    await to_the_end(errand.clean())
    finally:
        await connector.close_all()


async def _plan(order: Order, errand: Errand, tell: Tell) -> Prepared:
    tell(Step(1, 2, f"read the headers of {order.request.model} on {plural(len(order.nodes), 'node')}"))
    ended = await errand.run(
        "headers",
        lambda _: {parcel.NAME: parcel.parcel()},
        (*_PYTHON, "headers", str(order.request.model)),
        headers.PARTS,
        lambda _host, _line: None,
    )
    _check_ended(ended, dict.fromkeys(ended))
    found = await errand.fetch("headers-*.txt")
    answers = {host: headers.join([parts[path] for path in sorted(parts)]) for host, parts in found.items()}
    first = next(iter(order.nodes))
    checkpoint, problems = understand(answers[first], f"{order.request.model} on {first}")
    if checkpoint is None:
        raise CheckpointError(problems)
    _check_alike(answers, first)
    for host in answers:
        tell(HostState(host, "checked"))
    prepared = prepare_with(replace(order.request, target=None), checkpoint)
    if prepared.report.left:
        tell(Note(f"files that no runtime needs stay behind: {', '.join(prepared.report.left[:6])}"))
    return prepared


def _check_alike(answers: Mapping[str, Mapping[str, Any]], first: str) -> None:
    """Refuse nodes whose checkpoint is not that of the first.

    Raises:
        PreflightError: with each such node.
    """
    wanted = _identity(answers[first])
    faults = []
    for host, answer in answers.items():
        found = _identity(answer)
        differ = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        if differ:
            reason = f"its checkpoint differs from that of {first} in {differ[0]}"
            more = f" and {plural(len(differ) - 1, 'more file')}" if differ[1:] else ""
            faults.append(HostFault(host, reason + more, "copy the checkpoint there again"))
    if faults:
        raise PreflightError(f"{plural(len(faults), 'node')} cannot make their parts", faults)


def _identity(answer: Mapping[str, Any]) -> dict[str, object]:
    """Give file → what must be the same everywhere: sizes and headers of shards, the configuration's text."""
    shards = {said["name"]: (said.get("size"), said.get("digest")) for said in answer.get("shards", ())}
    return {"config.json": (answer.get("config") or {}).get("text"), **shards}


def _job(order: Order, prepared: Prepared, host: str) -> bytes:
    """Write a node's part down."""
    sizes = prepared.request.wish.sizes
    ranks = ranks_of_node(sizes, order.nodes[host], order.request.nodes or 1)
    files = out_files(prepared.plan, sizes, ranks if isinstance(ranks, range) else (), linked=prepared.request.linked)
    split = Split(prepared, order.out(host), order.how, order.arguments)
    return json.dumps(split.job(tuple(files)).to_json()).encode()


def _hear(host: str, line: str, latest: dict[str, SplitProgress], tell: Tell) -> None:
    try:
        said = json.loads(line)
        event = SplitProgress(host, **said)
    except (ValueError, TypeError, RecursionError):
        return
    if latest.get(host) != event:
        latest[host] = event
        tell(event)


def _only(files: Mapping[str, str]) -> dict[str, Any] | None:
    text = next(iter(files.values()), "")
    found: dict[str, Any] | None = json.loads(text) if text else None
    return found


def _judge(
    order: Order, prepared: Prepared, ended: Mapping[str, Ended], results: Mapping[str, dict[str, Any] | None]
) -> None:
    """Say which nodes did not make their part, and why."""
    faults = []
    for host, result in results.items():
        refused = (result or {}).get("refused")
        if refused:
            error = explain(refused["code"], refused["details"], Target(str(order.out(host)), prepared.plan.facts))
            problems = error.problems if isinstance(error, CheckpointError) else ()
            reason = "; ".join(problem.message for problem in problems) or str(error)
            faults.append(HostFault(host, reason, problems[0].hint if problems else error.hint))
    _check_ended(ended, results)
    if faults:
        hint = "what the other nodes have written is kept; run the same command again"
        raise PreflightError(f"{plural(len(faults), 'node')} could not make their parts", faults, hint=hint)


def _check_ended(ended: Mapping[str, Ended], results: Mapping[str, dict[str, Any] | None]) -> None:
    """Refuse programs that failed: those that ended otherwise than they meant to."""
    meant = {main.DONE} | ({main.REFUSED} if any(results.values()) else set())
    faults = [
        ProcessFault("split-weights", host, str(end), end.tail) for host, end in ended.items() if end.code not in meant
    ]
    if faults:
        hint = "the nodes need python3 3.7 or newer; what is finished is kept"
        raise StartupError(f"the worker failed on {plural(len(faults), 'node')}", faults, hint=hint)
