"""`--version` and `--help` are instant because they import next to nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sgdeploy

HEAVY = ("asyncssh", "jinja2", "pydantic", "rich", "asyncio", "yaml", "sgdeploy.console.console", "sgdeploy.plan.model")
ASK = """
import sys
from sgdeploy.cli.app import main
main({words!r})
sys.exit(" ".join(set({names!r}) & set(sys.modules)))
"""


def imported(words: list[str], names: tuple[str, ...]) -> list[str]:
    """Run the program in a fresh interpreter and tell which of some modules it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(words=words, names=names)],
        cwd=Path(sgdeploy.__file__).parents[1],
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


@pytest.mark.parametrize("name", ["up", "down", "status", "plan", "validate", "split-weights", "demo", "schema", "version"])
def test_the_help_of_a_command_imports_nothing_heavy_of_ours(name: str) -> None:
    # typer itself takes pydantic to read the words of a command, in its newer releases.
    assert imported([name, "--help"], tuple(set(HEAVY) - {"pydantic"})) == []


def test_a_plan_needs_no_connections() -> None:
    assert imported(["schema"], ("asyncssh", "jinja2", "asyncio")) == []
