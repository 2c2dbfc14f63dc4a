"""The program called in this process, and one small checkpoint for all tests of a module."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sgdeploy.cli.app import main
from tests.weights.tiny import make


@dataclass(frozen=True)
class Called:
    """How a call ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it wrote as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Call = Callable[..., Called]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call ``sgdeploy split-weights`` with some words."""

    def run(*words: object) -> Called:
        capsys.readouterr()
        code = main(["split-weights", *map(str, words)])
        written = capsys.readouterr()
        return Called(code, written.out, written.err)

    return run


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the small checkpoint once; nobody writes to it."""
    return make("dsv3-tiny", tmp_path_factory.mktemp("pristine") / "model")


@pytest.fixture
def model(pristine: Path, tmp_path: Path) -> Path:
    """Give a copy of the small checkpoint to break."""
    shutil.copytree(pristine, tmp_path / "model")
    return tmp_path / "model"
