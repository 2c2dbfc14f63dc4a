"""``sgdeploy ask``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from sgdeploy.cli import complete
from sgdeploy.cli.options import TARGET_HELP, Json, PathChanges

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.console.console import Console
    from sgdeploy.plan.model import Plan

EXAMPLES = """
  sgdeploy ask dsv3 "The capital of France is"
  sgdeploy ask my.yaml "Write a poem" --max-tokens 200
  sgdeploy ask dsv3 "Hello" --json | jq .first_token
""".lstrip("\n")


@dataclass(frozen=True, kw_only=True)
class Options(PathChanges, Json):
    """Arguments and options of ``ask``."""

    target: Annotated[
        str,
        typer.Argument(metavar="NAME|PROFILE", show_default=False, help=TARGET_HELP, autocompletion=complete.targets),
    ]
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", show_default=False, help="What to complete.")]
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate at most.")] = 64


def ask(desk: Desk, options: Options) -> None:
    """Send one completion to a deployment from this machine, as its clients do, and show what comes back."""
    from sgdeploy.cli.run import run
    from sgdeploy.cli.targets import resolve

    console = desk.open(options)
    target = resolve(desk, options.target, options)
    door = target.plan.front_door
    key = None if door.api_key is None else desk.secrets_of(target.plan).get(door.api_key.variable)
    run(desk, console, _ask(console, target.plan, options, key))


async def _ask(console: Console, plan: Plan, options: Options, key: str | None) -> None:
    from sgdeploy.remote.front_door import ask as send
    from sgdeploy.words import plural

    door = plan.front_door
    answer = send(door, options.prompt, deployment=plan.name, max_tokens=options.max_tokens, api_key=key)
    pieces = [piece async for piece in answer]
    text = "".join(piece.text for piece in pieces)
    tokens = next((piece.tokens for piece in reversed(pieces) if piece.tokens is not None), len(pieces))
    first = next((piece.seconds for piece in pieces if piece.text), None)
    last = pieces[-1].seconds if pieces else None
    console.line(text, completion=text, tokens=tokens, first_token=first, seconds=last, url=door.url)
    if first is not None and last is not None:
        console.say(f"{plural(tokens, 'token')} in {last:.2f} s, the first after {first:.2f} s, from {door.url}")
