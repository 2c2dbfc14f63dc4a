"""The typer program of one run: the command that was asked for is real, all others are lines in the help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields
from os import environ
from typing import Annotated, Any, get_type_hints

import typer
from typer.main import get_command

from sgdeploy import __version__
from sgdeploy.cli import complete
from sgdeploy.cli.commands import COMMANDS, Command, Loaded
from sgdeploy.cli.desk import Desk
from sgdeploy.cli.help import HelpedCommand, HelpedGroup

_ABOUT = """Bring SGLang up on clusters: one YAML profile, errors before launch,
the truth about every rank, nothing left behind.

\b
  sgdeploy demo                        see it work on this machine
  sgdeploy validate my.yaml            check a profile
  sgdeploy plan my.yaml                see what would run where
  sgdeploy up my.yaml                  bring it up and wait
  sgdeploy status NAME, down NAME      look at it, take it down
  sgdeploy diagnose NAME               name the cause of a failure
"""
_EPILOG = """\b
Exit codes: 0 done or ready; 1 (status) degraded or starting,
(diff) different; 2 profile, inventory or command line wrong;
3 hosts do not fit the plan; 4 locked by another; 5 a host could not be
reached or obeyed; 6 a process failed, (diagnose) something is wrong;
7 time ran out; 8 what runs or is on record does not fit; 9 down;
70 our own fault; 130 interrupted.
"""


def call(words: Sequence[str], desk: Desk) -> None:
    """Run the command that the words name.

    Raises:
        SystemExit: always, from typer; code 2 where the words are wrong.
        SgdeployError: what the command raised.
    """
    wanted = next((word for word in words if not word.startswith("-")), None)
    if complete.SHELL in environ:
        if environ[complete.SHELL] == "complete_bash":
            complete.join_words_of_bash(environ)
        wanted = complete.command_typed(environ)
    program = build(command.name for command in COMMANDS if command.name == wanted)
    get_command(program)(args=list(words), prog_name="sgdeploy", obj=desk)


def build(loaded: Iterable[str]) -> typer.Typer:
    """Build the program with the named commands loaded and a stand-in for each of the others."""
    program = typer.Typer(
        cls=HelpedGroup,
        help=_ABOUT,
        epilog=_EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,  # help needs no rich, which takes longer to import than all else
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    program.callback()(_root)
    names = set(loaded)
    for command in COMMANDS:
        _add(program, command, command.load() if command.name in names else None)
    return program


def _add(program: typer.Typer, command: Command, loaded: Loaded | None) -> None:
    if loaded is None:
        program.command(command.name, help=command.line)(_stand_in)
        return
    text = inspect.getdoc(loaded.function) or command.line
    examples = f"\b\nExamples:\n{loaded.examples.rstrip()}"
    if not command.below:
        program.command(command.word, help=text, short_help=command.line, epilog=examples, cls=HelpedCommand)(
            _adapted(loaded)
        )
        return
    group = typer.Typer(rich_markup_mode=None, cls=HelpedGroup)
    group.callback(invoke_without_command=True, help=text, short_help=command.line, epilog=examples)(_adapted(loaded))
    for each in command.below:
        _add(group, each, each.load())
    program.add_typer(group, name=command.word)


def _stand_in() -> None:
    """Do nothing: a command whose name was not typed is never called."""


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sgdeploy {__version__}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Hold the options of the program itself; ``version`` has done its work in its callback."""


def _adapted(loaded: Loaded) -> Callable[..., None]:
    """Make a function as typer wants it, one parameter per field, of a command that takes one value."""

    def run(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is None:
            loaded.function(context.obj, loaded.options(**values))

    hints = get_type_hints(loaded.options, include_extras=True)
    # The command's own first, then those that it shares with others: the order of the help.
    order = [name for cls in loaded.options.__mro__ for name in inspect.get_annotations(cls)]
    parameters = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for field in sorted(fields(loaded.options), key=lambda field: order.index(field.name)):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        parameters.append(
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name])
        )
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    return run
