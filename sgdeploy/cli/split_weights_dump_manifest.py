"""``sgdeploy split-weights dump-manifest``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli.options import Progress, seconds

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

EXAMPLES = """
  sgdeploy split-weights dump-manifest --python /opt/sglang/bin/python --out m.json -- --model-path /ckpt --tp-size 4
  sgdeploy split-weights --model /ckpt --tp 4 --plan --expect m.json       then hold a split against it
""".lstrip("\n")
_PATIENCE = 600.0


@dataclass(frozen=True, kw_only=True)
class Options(Progress):
    """Arguments and options of ``dump-manifest``."""

    flags: Annotated[
        list[str],
        typer.Argument(metavar="-- FLAG...", show_default=False, help="Flags of the engine, as at a real start."),
    ]
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default="stdout", help="File that the manifest is written to.")
    ] = None
    python: Annotated[
        str,
        typer.Option(metavar="PATH", show_default=True, help="Python of the environment that has the engine."),
    ] = "python3"
    draft: Annotated[
        bool, typer.Option("--draft", help="The draft model; FLAGs must switch speculative decoding on.")
    ] = False
    timeout: Annotated[
        float,
        typer.Option(parser=seconds, metavar="DURATION", show_default="10m", help="How long to wait for the engine."),
    ] = _PATIENCE


def split_weights_dump_manifest(desk: Desk, options: Options) -> None:
    """List name, type and shape of every parameter that an installed engine builds, for --expect.

    The engine is started with these flags and ended as soon as its model is constructed; no weights are read. Only
    ranks of this machine are listed: run it on each machine where they differ.
    """
    import json

    from sgdeploy.cli.run import run
    from sgdeploy.deploy.dump import DumpWish, dump
    from sgdeploy.words import plural

    console = desk.open(options)
    wish = DumpWish(options.python, tuple(options.flags), options.draft, options.timeout, desk.environ)
    found = run(desk, console, dump(wish))
    if options.out is None:
        console.json(found)
        return
    text = json.dumps(found, indent=1) + "\n"
    options.out.write_text(text, encoding="utf-8")
    count = len(next(iter(found["params"].values())))
    size = f"{plural(count, 'parameter')} of {found['class']} on {plural(len(found['ranks']), 'rank')}"
    message = f"{size} written to {options.out}"
    console.line(message, parameters=count, ranks=len(found["ranks"]), file=str(options.out))
