"""The engine as it travels: one script, made of all its modules, for Python 3.7 and the standard library."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping

import pytest

from sgdeploy.joining import join
from sgdeploy.parcels import shipped, sources

MODULES = sources("rehearse/engine")
JOINED = shipped("rehearse/engine.py")


def defined(text: str) -> list[str]:
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def test_everything_of_every_module_is_in_it_once() -> None:
    assert sorted(defined(JOINED)) == sorted(name for text in MODULES.values() for name in defined(text.decode()))


def test_it_is_python_3_7_with_nothing_but_the_standard_library() -> None:
    tree = ast.parse(JOINED, feature_version=(3, 7))
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    taken = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {node.level for node in taken} == {0}
    assert plain | {str(node.module) for node in taken} <= set(sys.stdlib_module_names)


def test_it_imports_at_its_start_only_what_it_always_needs() -> None:
    """Each further module costs every rank milliseconds and memory."""
    tree = ast.parse(JOINED)
    plain = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert plain == {"gc", "os", "select", "signal", "socket", "sys", "time"}
    assert {node.module for node in tree.body if isinstance(node, ast.ImportFrom)} == {"__future__", "heapq"}


@pytest.mark.parametrize("name", MODULES)
def test_no_module_is_longer_than_anybody_reads(name: str) -> None:
    assert MODULES[name].count(b"\n") <= 300


def test_modules_are_joined_in_the_order_of_their_needs() -> None:
    text = join(
        {
            "__init__": '"""Two and two."""\n',
            "__main__": '"""Adds."""\n\nimport sys\n\nfrom .two import two\n\nsys.stdout.write(str(two() + two()))\n',
            "two": '"""Two.\n\nMore."""\n\nimport os\nfrom math import ceil\n\nTYPE_CHECKING = False\n\n'
            "if TYPE_CHECKING:\n    from typing import Any\n\n\n"
            "def two() -> int:\n    return ceil(os.path.isdir('/') + 0.5)\n",
        }
    )
    assert text == (
        '"""Two and two."""\n\nfrom __future__ import annotations\n\nimport os\nimport sys\nfrom math import ceil\n\n\n'
        "# two.py: Two.\n\n\ndef two() -> int:\n    return ceil(os.path.isdir('/') + 0.5)\n\n\n"
        "# __main__.py: Adds.\n\n\nsys.stdout.write(str(two() + two()))\n"
    )


@pytest.mark.parametrize(
    ("modules", "why"),
    [
        ({"__main__": "from .a import f\nf = 1\n", "a": "def f(): pass\n"}, r"a\.py and __main__\.py both define f"),
        (
            {"__main__": "from .a import f\n", "a": "from .b import g\n", "b": "from .a import f\n"},
            "a → b → a",
        ),
        ({"__main__": "from . import a\n", "a": ""}, "only `from .module import name` can be joined"),
        ({"__main__": "from .a import f as g\n", "a": "f = 1\n"}, "only `from .module import name` can be joined"),
        ({"__main__": "", "a": ""}, r"__main__\.py does not lead to a"),
    ],
)
def test_what_cannot_be_joined_is_refused(modules: Mapping[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        join({"__init__": '"""x."""\n', **modules})
