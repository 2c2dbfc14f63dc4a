"""What the README promises exists: its profile plans, its commands are there, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sgdeploy import errors
from sgdeploy.cli.commands import COMMANDS
from sgdeploy.plan.compile import compile_profile

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_its_profile_becomes_256_processes(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "profile.yaml"
    file.write_text(block, encoding="utf-8")
    compiled = compile_profile(file)
    assert (len(compiled.plan.hosts), len(compiled.plan.processes)) == (16, 256)
    assert [problem.message for problem in compiled.warnings] == []
    assert len(block.splitlines()) <= 20


def test_its_commands_are_all_there_are() -> None:
    named = set(re.findall(r"^\| `sgdeploy ([\w-]+)", README, re.MULTILINE))
    assert named == {command.name for command in COMMANDS} - {"version"}


def test_its_exit_codes_are_those_of_the_errors() -> None:
    listed = {int(code) for code in re.findall(r"\| (\d+) \|", README)}
    ours = {kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")}
    assert listed == ours | {0, 1, 9}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/scripts.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("http")]
    assert links
    files = [link.partition("#")[0] or Path(page).name for link in links]
    assert [file for file in files if not (ROOT / page).parent.joinpath(file).exists()] == []
