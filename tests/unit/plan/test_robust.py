"""Whatever stands at whatever place of a profile, the answer is a plan or problems with places, never a crash."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from sgdeploy.errors import ProfileError
from sgdeploy.problems import Problem
from tests.unit.plan.conftest import BUCKETS, KUNPENG, KUNPENG_PD, NAMED, Compile

ODD: tuple[Any, ...] = (None, True, -1, "odd", [], ["odd", None], {"odd": {"odd": 1}}, {1: 2})
EXTRA = """
platform_settings: {layout: {hbm_pages: 2020}, sdma: {params: {safe_mode: 0}}, mtp: {}}
node: {pin: true}
health: {timeout: 45m}
"""


def spots(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items() if isinstance(tree, dict) else ():
        yield (*path, key)
        yield from spots(value, (*path, key))


def replaced(tree: Any, path: tuple[str, ...], value: Any) -> str:
    changed = copy.deepcopy(tree)
    target = changed
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return yaml.safe_dump(changed)


FULL = yaml.safe_load(KUNPENG + EXTRA)
FULL["engine"] |= {"flags": {"page-size": 64, "cuda-graph-bs-decode": [1]}, "env": {"A": "b"}}
FULL["native"] |= {
    "flags": {"dp": None, "chunked-prefill-size": -1},
    "env": {"CPATH": "/x"},
    "rendezvous": {"port": 5010},
}
SEVERAL = yaml.safe_load(NAMED)
TWO = yaml.safe_load(BUCKETS)
TWO["router"] |= {"groups": {"short_count": 1}, "policy": "random", "port": 31000, "cores": [1], "env": {"A": 1}}
APART = yaml.safe_load(KUNPENG_PD)
APART["router"] |= {"tokenizer": "separate", "tokenizers": {"port": 30001, "flags": {}}, "flags": {"log-level": "warn"}}
APART["decode"]["env"] = {"SGLANG_PP_LAYER_PARTITION": "61"}


def judged(compiled: Compile, text: str) -> tuple[Problem, ...]:
    """Compile and give the problems; anything else that is raised fails the test."""
    try:
        compiled(text)
    except ProfileError as error:
        return error.problems
    return ()


@pytest.mark.parametrize("tree", [FULL, SEVERAL, TWO, APART], ids=["kunpeng", "named", "buckets", "apart"])
def test_odd_values_are_problems_or_plans(compiled: Compile, tree: dict[str, Any]) -> None:
    refused = 0
    for path in spots(tree):
        for value in ODD:
            problems = judged(compiled, replaced(tree, path, value))
            assert all(problem.place is not None for problem in problems), (path, value)
            assert not problems or any(problem.level == "error" for problem in problems), (path, value)
            refused += bool(problems)
    assert refused > 100
