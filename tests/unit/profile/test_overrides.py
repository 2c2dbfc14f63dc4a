"""``--set``: what it takes, and how its mistakes are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sgdeploy.profile.load import Draft, draft

GOOD = """
version: 1
name: dsv3
topology: native
platform: cpu
model: {path: /m}
native:
  hosts: [n1, n2]
  flags: {page-size: 64}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(GOOD.lstrip())


def read(*sets: str) -> Draft:
    return draft(Path("p.yaml"), sets)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("native.port=30000", ("native", "port"), 30000),
        ("name=on", ("name",), "on"),
        ("native.flags.x=null", ("native", "flags", "x"), None),
        ("native.flags.x={a: [1, two]}", ("native", "flags", "x"), {"a": [1, "two"]}),
        ("native.flags={b: 1}", ("native", "flags"), {"page-size": 64, "b": 1}),
        ('native.flags."a.b"=1', ("native", "flags", "a.b"), 1),
        ("native.flags.'a=b'=1", ("native", "flags", "a=b"), 1),
        ("native.flags.x=a=b", ("native", "flags", "x"), "a=b"),
        ("native.hosts.1=n9", ("native", "hosts"), ["n1", "n9"]),
        ("native.hosts=[n7]", ("native", "hosts"), ["n7"]),
        ("engine.env.A=two words", ("engine", "env", "A"), "two words"),
        ("engine.env.A=$${x}", ("engine", "env", "A"), "${x}"),
        ("node.pin=false", ("node", "pin"), False),
    ],
)
def test_values(text: str, path: tuple[str, ...], value: Any) -> None:
    one = read(text)
    assert [problem.message for problem in one.problems] == []
    found: Any = one.tree
    for key in path:
        found = found[key]
    assert found == value
    assert one.profile is not None


def test_an_empty_value_is_null_and_removes() -> None:
    assert "flags" not in read("native.flags=").tree["native"]


def test_later_ones_win() -> None:
    assert read("native.port=1", "native.port=2").tree["native"]["port"] == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("native.port", "--set:1:1: `native.port` has no `=VALUE`"),
        ("", "--set:1:1: `` has no `=VALUE`"),
        ("=1", "--set:1:1: a key is missing or badly quoted here"),
        ("native..port=1", "--set:1:8: a key is missing or badly quoted here"),
        ('native."port=1', "--set:1:8: a key is missing or badly quoted here"),
        ("native.prot=1", "--set:1:8: unknown key `prot` in `native`"),
        ("native.port=many", '--set:1:13: `native.port` must be a whole number, got the text "many"'),
        ("native.port={a: 1", "--set:1:13: a `{` that opens here is not closed properly"),
        ("native.flags.x={a: 1, a: 2}", "--set:1:23: the key `a` appears twice; the first is on line 1"),
        ("name.x=1", "--set:1:6: `name` is a single value, it has no key `x`"),
        ("native.hosts.2=n3", "--set:1:14: `native.hosts` is a list of 2; `2` is no item of it (counted from 0)"),
        (
            "native.hosts.first=n3",
            "--set:1:14: `native.hosts` is a list of 2; `first` is no item of it (counted from 0)",
        ),
        ("native.hosts.1=n[3-1]", "--set:1:18: reversed range `3-1`"),
        ("native.hosts.1='n[3-1]'", "--set:1:19: reversed range `3-1`"),
        ("extends=x.yaml", "--set:1:1: `extends` cannot be set here"),
        ("inventory=none.yaml", "--set:1:11: there is no file none.yaml"),
        ("model.path=${env:X}", "--set:1:12: a secret (${env:X}) cannot stand here"),
    ],
)
def test_mistakes_point_into_the_argument(text: str, told: str) -> None:
    problems = read(text).problems
    assert [f"{problem.place}: {problem.message}" for problem in problems] == [told]
    assert problems[0].place is not None
    assert problems[0].place.text == text


def test_each_argument_is_a_line_of_its_own() -> None:
    places = [str(problem.place) for problem in read("native.port=30000", "native.prt=1", "name=X").problems]
    assert places == ["--set:2:8", "--set:3:6"]


def test_an_inventory_is_found_from_the_working_folder() -> None:
    Path("inv.yaml").write_text('version: 1\ngroups: {g: "n[1-2]"}\n')
    one = read("inventory=inv.yaml", "native.hosts=g")
    assert [host.name for host in one.hosts["native", "hosts"]] == ["n1", "n2"]
