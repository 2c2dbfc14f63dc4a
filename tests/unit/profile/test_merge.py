"""Parents, overlays and ``--set``: who wins, what null takes away, and what is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sgdeploy.profile.compose import compose
from sgdeploy.profile.load import Draft, draft
from sgdeploy.profile.merge import merge
from sgdeploy.profile.nodes import Node, plain
from sgdeploy.profile.source import Source, split_lines

GOOD = """
version: 1
name: dsv3
topology: native
platform: cpu
model: {path: /models/dsv3}
native:
  hosts: [n1, n2]
  parallel: {tp: 2}
  flags: {page-size: 64, watchdog-timeout: 300}
  env: {A: one, B: two}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text(GOOD.lstrip())
    return tmp_path


def read(text: str, *sets: str, overlays: tuple[str, ...] = ()) -> Draft:
    Path("p.yaml").write_text(text)
    return draft(Path("p.yaml"), sets, [Path(overlay) for overlay in overlays])


def told(one: Draft) -> list[str]:
    return [f"{problem.place}: {problem.message}" for problem in one.problems]


def test_maps_merge_lists_replace_scalars_win(folder: Path) -> None:
    one = read("extends: good.yaml\nname: x\nnative: {hosts: [n9], parallel: {pp: 2}}\n")
    assert folder / "good.yaml" in one.files
    assert told(one) == []
    assert one.tree["name"] == "x"
    assert one.tree["native"]["hosts"] == ["n9"]
    assert one.tree["native"]["parallel"] == {"tp": 2, "pp": 2}


@pytest.mark.usefixtures("folder")
def test_later_parents_win_over_earlier_and_the_file_over_both() -> None:
    Path("a.yaml").write_text("engine: {cwd: /a, python: a}\n")
    Path("b.yaml").write_text("engine: {cwd: /b, python: b, version: b}\n")
    one = read("extends: [good.yaml, a.yaml, b.yaml]\nengine: {version: x}\n")
    assert one.tree["engine"] == {"cwd": "/b", "python": "b", "version": "x"}


@pytest.mark.usefixtures("folder")
def test_a_parent_may_be_reached_twice() -> None:
    Path("a.yaml").write_text("extends: good.yaml\nname: a\n")
    Path("b.yaml").write_text("extends: good.yaml\nengine: {cwd: /b}\n")
    one = read("extends: [a.yaml, b.yaml]\n")
    assert told(one) == []
    assert [path.name for path in one.files] == ["p.yaml", "a.yaml", "good.yaml", "b.yaml"]


@pytest.mark.usefixtures("folder")
def test_overlays_win_over_the_file_and_sets_over_all() -> None:
    Path("o1.yaml").write_text("name: o1\nengine: {cwd: /o1, python: o1}\n")
    Path("o2.yaml").write_text("engine: {cwd: /o2}\n")
    one = read("extends: good.yaml\nname: x\n", "engine.python=set", overlays=("o1.yaml", "o2.yaml"))
    assert (one.tree["name"], one.tree["engine"]) == ("o1", {"cwd": "/o2", "python": "set"})


@pytest.mark.usefixtures("folder")
def test_null_takes_a_value_away() -> None:
    one = read("extends: good.yaml\nnative: {parallel: null}\n")
    assert "parallel" not in one.tree["native"]
    assert one.profile is not None
    assert told(one) == []


@pytest.mark.usefixtures("folder")
def test_null_stays_in_flags_env_and_platform_settings() -> None:
    one = read(
        "extends: good.yaml\nnative: {flags: {page-size: null}, env: {A: ~}}\nplatform_settings: {m: {x: null}}\n"
    )
    assert one.tree["native"]["flags"] == {"page-size": None, "watchdog-timeout": 300}
    assert one.tree["native"]["env"] == {"A": None, "B": "two"}
    assert one.tree["platform_settings"] == {"m": {"x": None}}


@pytest.mark.usefixtures("folder")
def test_a_value_above_a_null_does_not_bring_back_what_was_below() -> None:
    Path("a.yaml").write_text("extends: good.yaml\nnative: {parallel: null}\n")
    one = read("extends: a.yaml\nnative: {parallel: {pp: 2}}\n")
    assert one.tree["native"]["parallel"] == {"pp": 2}


@pytest.mark.usefixtures("folder")
def test_flags_override_in_either_spelling_and_env_only_in_its_own() -> None:
    one = read(
        "extends: good.yaml\nnative: {flags: {page_size: 128}, env: {A: x}}\n", "native.flags.watchdog_timeout=1"
    )
    assert one.tree["native"]["flags"] == {"page_size": 128, "watchdog-timeout": 1}
    both = read("extends: good.yaml\nnative: {flags: {a-b: 1, a_b: 2}}\n")
    assert both.tree["native"]["flags"].keys() >= {"a-b", "a_b"}


@pytest.mark.usefixtures("folder")
def test_origins_name_every_layer_lowest_first() -> None:
    Path("o.yaml").write_text("\nnative: {flags: {page_size: 32}}\n")
    one = read(
        "extends: good.yaml\nnative: {flags: {page-size: 128}}\n", "native.flags.page-size=16", overlays=("o.yaml",)
    )
    origins = [(str(origin.place), origin.value) for origin in one.places.origins(("native", "flags", "page-size"))]
    assert origins == [("good.yaml:9:11", 64), ("p.yaml:2:18", 128), ("o.yaml:2:18", 32), ("--set:1:14", 16)]
    assert one.places.origins(("native", "nothing")) == ()


@pytest.mark.usefixtures("folder")
def test_a_problem_is_placed_in_the_file_that_won() -> None:
    Path("a.yaml").write_text("extends: good.yaml\nnative:\n  port: 0\n  parallel: {tp: x}\n")
    one = read("extends: a.yaml\nnative: {port: 70000}\n")
    assert told(one) == [
        "p.yaml:2:16: `native.port` must be at most 65535, got 70000",
        'a.yaml:4:18: `native.parallel.tp` must be a whole number, got the text "x"',
    ]


VALUES = st.recursive(
    st.integers(0, 3) | st.just("x"),
    lambda below: st.dictionaries(st.sampled_from("abc"), below, max_size=3) | st.lists(below, max_size=2),
    max_leaves=6,
)
MAPS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=3)


def node(tree: Any, name: str) -> Node:
    text = yaml.safe_dump(tree)
    found, problems = compose(Source(name, text, split_lines(text), Path("/")))
    assert not problems
    assert found is not None
    return found


def laid_over(lower: Any, upper: Any) -> Any:
    """Say in three lines what merging means."""
    if not (isinstance(lower, dict) and isinstance(upper, dict)):
        return upper
    return {key: laid_over(lower.get(key), upper[key]) if key in upper else lower[key] for key in {**lower, **upper}}


@given(MAPS, MAPS, MAPS)
def test_merging_is_what_it_says_and_grouping_does_not_matter(a: Any, b: Any, c: Any) -> None:
    na, nb, nc = node(a, "a"), node(b, "b"), node(c, "c")
    assert plain(merge(na, nb)) == laid_over(a, b)
    assert plain(merge(merge(na, nb), nc)) == laid_over(laid_over(a, b), c)


@given(MAPS, MAPS)
def test_each_value_comes_from_the_last_file_that_set_it(a: Any, b: Any) -> None:
    merged = merge(node(a, "a"), node(b, "b"))
    assert isinstance(merged.content, dict)
    for key, item in merged.content.items():
        assert item.place.file == ("b" if key in b else "a")
        assert [origin.place.file for origin in item.history] == (["a"] if key in a and key in b else [])
