"""What unquoted scalars stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sgdeploy.profile import core
from sgdeploy.profile.compose import compose
from sgdeploy.profile.nodes import plain
from sgdeploy.profile.source import Source, split_lines


def load(text: str) -> Any:
    node, problems = compose(Source("x.yaml", text, split_lines(text), Path("/")))
    assert not problems
    assert node is not None
    return plain(node, nulls=True)


@pytest.mark.parametrize("text", ["on", "off", "yes", "no", "y", "N", "On", "OFF", "tRUE"])
def test_only_true_and_false_are_booleans(text: str) -> None:
    assert load(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), ("TRUE", True)])
def test_booleans(text: str, value: bool) -> None:
    assert load(f"a: {text}")["a"] is value


@pytest.mark.parametrize(
    "text", ["12:30", "1:2:3", "010", "-007", "00", "0_1", "1_000", "2024-01-01", "0.5.23", "1.2.3.4"]
)
def test_numbers_with_surprises_are_text(text: str) -> None:
    assert load(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-12", -12),
        ("+7", 7),
        ("0x1F", 31),
        ("0o17", 15),
        ("0.88", 0.88),
        ("-.5", -0.5),
        ("1e3", 1000.0),
        ("2.", 2.0),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
    ],
)
def test_numbers(text: str, value: float) -> None:
    found = load(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_nulls(text: str) -> None:
    assert load(f"a: {text}") == {"a": None}


@pytest.mark.parametrize("quoted", ['"true"', "'16'", '"~"', "!!str 16", "'<<'", "|-\n  16"])
def test_quoted_is_text(quoted: str) -> None:
    assert isinstance(load(f"a: {quoted}")["a"], str)


def test_thousands_of_digits_are_text() -> None:
    digits = "9" * 5000
    assert load(f"a: {digits}") == {"a": digits}


def test_a_boolean_word_as_key_is_text() -> None:
    assert load("on: 1\nyes: 2\n") == {"on": 1, "yes": 2}


def test_anchors_aliases_and_merge_keys() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\none: {<<: *b, x: 9}\ntwo: {<<: [*m, *b]}\nthree: *b\n"
    tree = load(text)
    assert tree["one"] == {"x": 9, "y": 2}
    assert tree["two"] == {"x": 1, "y": 3, "z": 4}
    assert tree["three"] == {"x": 1, "y": 2}


def test_windows_line_ends_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    from sgdeploy.profile.source import read

    file = tmp_path / "p.yaml"
    file.write_bytes("\ufeffa: 1\r\nb:\r\n  c: x\r\n".encode())
    source = read(file, "p.yaml", tmp_path)
    assert isinstance(source, Source)
    node, problems = compose(source)
    assert node is not None
    assert not problems
    found = node.at(("b", "c"))
    assert found is not None
    assert (str(found.place), found.place.text) == ("p.yaml:3:6", "  c: x")


SCALARS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufeff\ufffe\uffff")),
    st.integers(-(10**9), 10**9),
    st.booleans(),
    st.none(),
)
TREES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("abc-_", min_size=1), below, max_size=4),
)


class CoreDumper(yaml.SafeDumper):
    """Quotes a text exactly where ours would read it as something else; PyYAML's own would leave ``0E0`` bare."""

    resolve = core.CoreLoader.resolve


@given(st.dictionaries(st.text("abcxyz_", min_size=1), TREES, max_size=4), st.booleans())
def test_what_is_written_is_read_and_each_key_is_where_its_place_says(tree: dict[str, Any], flow: bool) -> None:
    text = yaml.dump(tree, Dumper=CoreDumper, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    node, problems = compose(Source("x.yaml", text, split_lines(text), Path("/")))
    assert problems == []
    assert node is not None
    assert plain(node, nulls=True) == tree
    assert isinstance(node.content, dict)
    for key, item in node.content.items():
        assert item.key is not None
        begin = item.key.column - 1
        assert item.key.text[begin : begin + item.key.width].strip("'\"") == key
        assert item.key.text == split_lines(text)[item.key.line - 1]
