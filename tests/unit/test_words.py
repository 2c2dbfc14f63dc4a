"""Numbers and names in messages: a count agrees with its noun, a list names each of its items once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sgdeploy
from sgdeploy.facts.text import read_numbers
from sgdeploy.profile.hosts import expand
from sgdeploy.words import name_list, number_list, plural

PACKAGE = Path(sgdeploy.__file__).parent
ALONE = {*PACKAGE.glob("node/*.py"), *PACKAGE.glob("rehearse/engine/*.py")}
"""Programs for the hosts, which import nothing of ours."""


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "host", "0 hosts"),
        (1, "host", "1 host"),
        (2, "host", "2 hosts"),
        (1, "process", "1 process"),
        (3, "engine process", "3 engine processes"),
        (2, "batch", "2 batches"),
    ],
)
def test_a_count_agrees_with_its_noun(count: int, noun: str, text: str) -> None:
    assert plural(count, noun) == text


@pytest.mark.parametrize(
    ("numbers", "plain", "strided"),
    [
        ([], "", ""),
        ([5], "5", "5"),
        ([3, 1, 2, 8], "1-3,8", "1-3,8"),
        ([1, 3], "1,3", "1,3"),
        (range(20, 97, 38), "20,58,96", "20-96:38"),
        ([30000, 30001, 30000, 5010], "5010,30000-30001", "5010,30000-30001"),
        ([1, 2, 4, 6, 8], "1-2,4,6,8", "1-2,4-8:2"),
    ],
)
def test_number_lists(numbers: Iterable[int], plain: str, strided: str) -> None:
    assert number_list(numbers) == plain
    assert number_list(numbers, strides=True) == strided


@given(st.sets(st.integers(min_value=0, max_value=200)))
def test_a_number_list_names_every_number_once(numbers: set[int]) -> None:
    assert read_numbers(number_list(numbers)) == tuple(sorted(numbers))
    found: list[int] = []
    for part in filter(None, number_list(numbers, strides=True).split(",")):
        run, _, stride = part.partition(":")
        first, _, last = run.partition("-")
        found += range(int(first), int(last or first) + 1, int(stride or 1))
    assert found == sorted(numbers)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n01"], "n01"),
        (["n2", "n1"], "n[1-2]"),
        ([f"10.0.0.{n}" for n in range(1, 17)], "10.0.0.[1-16]"),
        ([*(f"node{n:02d}" for n in (1, 2, 3, 9, 10, 11)), "login"], "node[01-03,09-11], login"),
        (["n1.lab", "n2.lab", "n9.lab"], "n[1-2,9].lab"),
        (["a1-ib0", "a2-ib0", "a3-ib0"], "a[1-3]-ib0"),
        (["x0", "x1", "x10"], "x[0-1,10]"),
        ([f"n{n:02d}/r{r:02d}" for n in range(1, 17) for r in range(16)], "n[01-16]/r[00-15]"),
        (["n1/r0", "n1/r1", "n2/r0"], "n1/r[0-1], n2/r0"),
        (["alpha", "beta", "gamma", "beta"], "alpha, beta, gamma"),
    ],
)
def test_name_lists(names: list[str], text: str) -> None:
    assert name_list(names) == text


@given(st.lists(st.from_regex(r"[a-c][0-9]{1,3}(-ib[0-9])?", fullmatch=True), unique=True, min_size=1))
def test_a_name_list_is_range_notation_for_every_name(names: list[str]) -> None:
    parts = re.findall(r"(?:[^,\[ ]|\[[^\]]*\])+", name_list(names))
    assert sorted(host for part in parts for host in expand(part)) == sorted(names)


def test_no_message_makes_its_own_plural() -> None:
    """Nobody writes ``host(s)`` or glues an ``s`` to a noun behind its count: that is what ``plural`` is for."""
    files = sorted(set(PACKAGE.rglob("*.py")) - ALONE)
    trees = {file.relative_to(PACKAGE): ast.parse(file.read_text(encoding="utf-8")) for file in files}
    found = [f"{file}:{node.lineno}" for file, tree in trees.items() for node in _texts(tree) if _by_hand(node)]
    assert found == []


def _texts(tree: ast.Module) -> Iterator[ast.JoinedStr]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr))


def _by_hand(text: ast.JoinedStr) -> bool:
    """Look for a count, its noun, and then an ending that is chosen or put in brackets."""
    for value, noun, ending in zip_longest(text.values, text.values[1:], text.values[2:]):
        if isinstance(value, ast.FormattedValue) and isinstance(noun, ast.Constant):
            if re.match(r" [a-z ]+\(e?s\)", str(noun.value)):
                return True
            chosen = ending.value if isinstance(ending, ast.FormattedValue) else None
            if isinstance(chosen, ast.IfExp) and re.fullmatch(r" [a-z ]+", str(noun.value)):
                arms = [arm.value for arm in (chosen.body, chosen.orelse) if isinstance(arm, ast.Constant)]
                if any(re.match(r"e?s\b", str(arm)) for arm in arms):
                    return True
    return False
