"""`--version` and `--help` are instant because they import next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import sgdeploy
from sgdeploy.cli.commands import COMMANDS

HEAVY = ("asyncssh", "jinja2", "pydantic", "rich", "asyncio", "yaml", "sgdeploy.console.console", "sgdeploy.plan.model")
ASK = """
import sys
from sgdeploy.cli.app import main
main({words!r})
sys.exit(" ".join(set({names!r}) & set(sys.modules)))
"""


def imported(words: list[str], names: tuple[str, ...], environ: Mapping[str, str] | None = None) -> list[str]:
    """Run the program in a fresh interpreter and tell which of some modules it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(words=words, names=names)],
        cwd=Path(sgdeploy.__file__).parents[1],
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout
    return done.stderr.split()


def test_version_imports_nothing_but_python_itself() -> None:
    assert imported(["--version"], (*HEAVY, "typer", "typing", "dataclasses", "inspect")) == []


def test_help_imports_nothing_heavy() -> None:
    assert imported(["--help"], HEAVY) == []


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_the_help_of_a_command_imports_nothing_heavy_of_ours(name: str) -> None:
    # typer itself takes pydantic to read the words of a command, in its newer releases.
    assert imported([name, "--help"], tuple(set(HEAVY) - {"pydantic"})) == []


@pytest.mark.parametrize("line", ["sgdeploy\nva", "sgdeploy\nplan\n--jso"])
def test_the_shell_gets_commands_and_options_without_anything_heavy(line: str) -> None:
    environ = {"_SGDEPLOY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count("\n"))}
    assert imported([], tuple(set(HEAVY) - {"pydantic"}), environ) == []


def test_a_plan_needs_no_connections() -> None:
    assert imported(["schema"], ("asyncssh", "jinja2", "asyncio")) == []
