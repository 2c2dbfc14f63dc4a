"""Every kind of bad input: told at its place, in words, with the next step; once each, and all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgdeploy.problems import Place
from sgdeploy.profile.load import draft
from sgdeploy.profile.source import split_lines
from sgdeploy.profile.topologies import written

from .catalogue import CASES, FOLDER, drafted, report

AT_LEAST = 100


@pytest.fixture(autouse=True)
def in_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)


def test_the_catalogue_is_there() -> None:
    assert len(CASES) >= AT_LEAST


@pytest.mark.parametrize("name", CASES)
def test_bad_input_is_told_as_written(name: str) -> None:
    assert report(drafted(name)) == Path(f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_every_place_is_in_its_file(name: str) -> None:
    problems = drafted(name).problems
    assert problems
    for problem in problems:
        assert problem.place is not None
        assert_inside(problem.place)


def assert_inside(place: Place) -> None:
    lines = split_lines(Path(place.file).read_bytes().decode("utf-8-sig", "replace"))
    assert 1 <= place.line <= len(lines)
    assert place.text == lines[place.line - 1]
    assert 1 <= place.column <= len(place.text) + 1
    assert 1 <= place.width <= max(1, len(place.text) - place.column + 2)


@pytest.mark.parametrize("name", CASES)
def test_an_error_leaves_no_profile_or_no_inventory_or_no_hosts(name: str) -> None:
    read = drafted(name)
    wanted = {(*spot.path, "hosts") for spot, _ in written(read.tree)}
    wanted |= {("router", "host")} if "router" in read.tree else set()
    if any(problem.level == "error" for problem in read.problems):
        assert read.profile is None or read.inventory is None or wanted - read.hosts.keys()


def test_the_same_from_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    read = draft(FOLDER / "all-at-once.yaml")
    told = [problem.place.file for problem in read.problems if problem.place]
    names = ["all-at-once.yaml"] * 3 + ["with/parent-bad.yaml", "with/inventory-late.yaml"]
    assert told == [str(FOLDER / name) for name in names]
