"""Help is complete: every command with examples, every option with its meaning; wrong words meet a suggestion."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest
from typer.models import ArgumentInfo, OptionInfo

from sgdeploy import __version__
from sgdeploy.cli.commands import COMMANDS, Command
from sgdeploy.cli.help import plainly
from tests.unit.cli.conftest import Call

EVERY = [each for command in COMMANDS for each in (command, *command.below)]
EACH = pytest.mark.parametrize("command", EVERY, ids=[command.name for command in EVERY])


def test_the_version(call: Call) -> None:
    for words in (["--version"], ["--version", "--help"]):
        assert call(*words).out == f"sgdeploy {__version__}\n"
    found = call("version")
    assert found.out.splitlines()[0] == f"sgdeploy {__version__}"
    assert "pydantic" in found.out


def test_the_program_lists_every_command(call: Call) -> None:
    found = call("--help")
    assert found.code == 0
    for command in COMMANDS:
        assert f"  {command.name} " in found.out
        assert command.line in found.out
    assert "Exit codes: 0 done or ready" in found.out
    assert max(map(len, found.out.splitlines())) <= 80


@EACH
def test_a_command_explains_itself(call: Call, command: Command) -> None:
    found = call(*command.name.split(), "--help")
    assert found.code == 0
    assert f"Usage: sgdeploy {command.name}" in found.out
    assert "Examples:\n    sgdeploy" in found.out
    options, _, _ = found.out.partition("Examples:")
    assert not re.findall(r"<[^>]*>|default:\s+\(|\brequired\)|x>=", options)


@pytest.mark.parametrize(
    ("row", "plain"),
    [
        (("PROFILE|NAME <str>", "Path.  [required]"), ("PROFILE|NAME", "Path.  [required]")),
        (("[LOGFILE...|FOLDER] <list[str]>", "Logs."), ("[LOGFILE...|FOLDER]", "Logs.")),
        (
            ("-n, --last <int range>", "Last.  [default: (20); x>=1]"),
            ("-n, --last N", "Last.  [default: 20; at least 1]"),
        ),
        (("--out DIR", "It.  [default: (required without --plan)]"), ("--out DIR", "It.  [required without --plan]")),
        (("--wait", "So (or not).  [default: wait]"), ("--wait", "So (or not).  [default: wait]")),
    ],
)
def test_a_row_of_the_help_speaks_plainly(row: tuple[str, str], plain: tuple[str, str]) -> None:
    assert plainly(*row) == plain


@EACH
def test_every_option_says_what_it_is_for_and_what_it_is_by_default(command: Command) -> None:
    loaded = command.load()
    hints = get_type_hints(loaded.options, include_extras=True)
    for field in fields(loaded.options):
        assert get_origin(hints[field.name]) is Annotated
        (info,) = get_args(hints[field.name])[1:]
        assert isinstance(info, (ArgumentInfo, OptionInfo))
        assert info.help
        # A value that is taken from elsewhere when none is given is named; a list is empty, a switch is off.
        repeated = field.name in {"sets", "overlays"}
        assert field.default is MISSING or isinstance(field.default, bool) or repeated or info.show_default


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stauts"], "Did you mean 'status'"),
        (["up"], "Missing argument 'PROFILE|NAME'"),
        (["up", "tiny.yaml", "--dryrun"], "--dry-run"),
        (["up", "tiny.yaml", "--timeout", "soon"], "must be a duration such as 45m"),
        (["down", "tiny.yaml", "--now", "--grace", "3s"], "--now and --grace contradict each other"),
        (["plan", "tiny.yaml", "--host", "a9"], "its hosts: a1, a2"),
    ],
)
def test_wrong_words_end_with_2_and_a_next_step(call: Call, words: list[str], message: str) -> None:
    found = call(*words)
    assert (found.code, found.out) == (2, "")
    assert message in found.err


def test_no_words_show_the_help(call: Call) -> None:
    found = call()
    assert "Commands:" in found.out + found.err


@pytest.mark.parametrize("name", ["status", "wait", "logs", "restart", "down", "rollback", "ask", "lock status"])
def test_what_looks_at_a_name_says_that_it_is_not_changed(call: Call, name: str) -> None:
    help_text = " ".join(call(*name.split(), "--help").out.split())
    assert help_text.count("Only with a profile's path, not with a name") == 2


@pytest.mark.parametrize("name", ["up", "diff", "plan"])
def test_what_makes_a_plan_may_change_it(call: Call, name: str) -> None:
    assert "not with a name" not in " ".join(call(name, "--help").out.split())
