"""``sgdeploy split-weights``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import Changes, Progress

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy split-weights --profile my.yaml --model /ckpt --out /split      sizes and scheme from the deployment
  sgdeploy split-weights --profile my.yaml --model /ckpt --plan            show what would be written, and stop
  sgdeploy split-weights --profile my.yaml --model /ckpt --out /split --node-rank 3      one node's part alone
  sgdeploy split-weights --profile my.yaml --model /ckpt --out /split --on-nodes         every node makes its own part
  sgdeploy split-weights --model /ckpt --out /split --tp 4 --dp 2 --ep 4   without a profile, for SGLang itself
  sgdeploy split-weights verify /split                                     hold it against its manifest
""".lstrip("\n")


def _number(text: str, *, default: str, least: int = 1) -> Any:
    """Make the option of a size."""
    return typer.Option(min=least, metavar="N", show_default=default, help=text)


@dataclass(frozen=True, kw_only=True)
class Options(Changes, Progress):
    """Options of ``split-weights``."""

    model: Annotated[
        Path | None, typer.Option(metavar="DIR", show_default="required", help="Folder of the checkpoint.")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default="required without --plan", help="Folder that is written."),
    ] = None
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be written and stop. Reads headers only.")] = (
        False
    )
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE",
            autocompletion=complete.profiles,
            show_default="none",
            help="Deployment that the split is for: gives sizes and scheme.",
        ),
    ] = None
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="UNIT",
            autocompletion=complete.units,
            show_default="the only one",
            help="Instance of the profile, such as prefill or decode/a.",
        ),
    ] = None
    tp: Annotated[int | None, _number("Ranks of a pipeline stage, over all its nodes.", default="the profile's")] = None
    dp: Annotated[int | None, _number("Attention groups in a stage.", default="the profile's, else 1")] = None
    ep: Annotated[int | None, _number("Expert groups in a stage.", default="the profile's, else the scheme's")] = None
    pp: Annotated[int | None, _number("Pipeline stages.", default="the profile's, else 1")] = None
    pp_partition: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", show_default="evenly, the rest on the last stages", help="Layers of each stage."),
    ] = None
    scheme: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            show_default="the profile's platform's, else upstream",
            help="Layout rules of the runtime: upstream, upstream-cpu, kunpeng, kunpeng-socket, or a file.",
        ),
    ] = None
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="NAME=RULE",
            show_default="the scheme's rules",
            help="How one class is cut: whole, attention, global or socket:N. May be given often.",
        ),
    ] = None
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="sharded_state|kunpeng_state", show_default="the scheme's first", help="Layout of the files."
        ),
    ] = None
    mtp: Annotated[
        str | None,
        typer.Option(
            metavar="separate|drop|inline",
            show_default="separate",
            help="Multi-token prediction: a draft model of its own in mtp/, left out, or among the other layers.",
        ),
    ] = None
    redundant_experts: Annotated[
        int | None, _number("Experts that are there twice.", default="the profile's, else 0", least=0)
    ] = None
    expert_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="redundant experts are the first ones again",
            help="JSON with physical_to_logical_map: for each layer the logical expert of each physical one.",
        ),
    ] = None
    pad_vocab: Annotated[
        str | None,
        typer.Option(
            metavar="zeros",
            show_default="refuse",
            help="What fills the rows by which the runtime rounds the vocabulary up.",
        ),
    ] = None
    ranks: Annotated[
        str | None, typer.Option(metavar="0-15", show_default="all", help="Write the files of these ranks only.")
    ] = None
    node_rank: Annotated[
        int | None, _number("Write the files of one node's ranks only.", default="all nodes", least=0)
    ] = None
    nnodes: Annotated[int | None, _number("Number of nodes.", default="the profile's")] = None
    replicas: Annotated[
        str,
        typer.Option(metavar="link|symlink|reflink|copy", help="What files with the same bytes become."),
    ] = "link"
    expect: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="MANIFEST",
            show_default="none",
            help="Compare names, types and shapes with those of a real runtime (dump-manifest). May be given often.",
        ),
    ] = None
    on_nodes: Annotated[
        bool,
        typer.Option(
            "--on-nodes",
            help="Let every node of the profile make its own part; --model and --out are paths there, {host} in --out "
            "is the host's name.",
        ),
    ] = False
    start_over: Annotated[
        bool, typer.Option("--start-over", help="Remove what an earlier run wrote to --out, then begin.")
    ] = False
    workers: Annotated[int | None, _number("Files at a time, 2 MB of memory each.", default="the cores, at most 4")] = (
        None
    )
    hashes: Annotated[
        bool, typer.Option("--hash/--no-hash", help="Compute each file's SHA-256 on the way, for verify.")
    ] = True
    fsync: Annotated[bool, typer.Option("--fsync", help="Force each file to the disk before it gets its name.")] = False


def split_weights(desk: Desk, options: Options) -> None:
    """Split a checkpoint into the files that each rank loads, with a few megabytes of memory.

    All problems are told before anything is written. Interrupted, it goes on where it was when it is run again. The
    result is for the engine's `--load-format sharded_state`; `up` checks it against the deployment.
    """
    from sgdeploy.cli.run import run
    from sgdeploy.cli.split_request import how_to_load, job, request
    from sgdeploy.deploy.split import split
    from sgdeploy.weights.disk.request import prepare
    from sgdeploy.weights.worker.target import free_space

    console = desk.open(options)
    if options.on_nodes:
        from sgdeploy.cli.split_nodes import on_nodes

        on_nodes(desk, options, console)
        return
    prepared = prepare(request(desk, options))
    if options.plan or options.out is None:
        console.split_plan(prepared.report, None if options.out is None else free_space(options.out))
        return
    work = job(desk, options, prepared, options.out)
    with console.splitting():
        done = run(desk, console, split(work, console.tell))
    for line in how_to_load(options, done, prepared.request):
        console.say(line)
