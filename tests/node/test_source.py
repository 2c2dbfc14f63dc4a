"""The helper must run on Python 3.7 with nothing but the standard library, whatever runs these tests."""

from __future__ import annotations

import ast
import marshal
import re
import subprocess
import sys
import zlib

import pytest

from sgdeploy.node.boot import BOOTSTRAP, PYTHON_FLAGS
from sgdeploy.parcels import sources
from sgdeploy.paths import package_file
from sgdeploy.remote.channel import packed, packed_helper

MODULES = sources("node")

TOO_NEW = {
    *("removeprefix", "removesuffix", "cache", "cached_property", "posix_spawn", "isqrt", "prod", "dist", "perm"),
    *("readlink", "is_relative_to", "hardlink_to", "with_stem", "walk", "pidfd_open", "pidfd_send_signal"),
    *("strsignal", "valid_signals", "excepthook", "unparse", "waitstatus_to_exitcode", "getrandbytes", "randbytes"),
    *("get_native_id", "to_thread", "chdir", "pairwise", "batched", "bit_count", "process_cpu_count", "memfd_create"),
    *("Literal", "Protocol", "Final", "TypedDict", "TypeAlias", "ParamSpec", "Self", "final", "override"),
}
TOO_NEW_KEYWORDS = {"dirs_exist_ok", "missing_ok", "strict", "umask", "process_group", "pipesize", "extra_groups"}
BUILTIN_GENERICS = {"dict", "list", "set", "tuple", "frozenset", "type"}


class TooNew(ast.NodeVisitor):
    """Finds what came after Python 3.7 and is no syntax error there."""

    def __init__(self) -> None:
        """Begin with nothing found."""
        self.found: list[str] = []

    def _note(self, node: ast.expr | ast.stmt | ast.keyword, what: str) -> None:
        self.found.append(f"line {node.lineno}: {what}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Methods and functions."""
        if node.attr in TOO_NEW:
            self._note(node, node.attr)
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Names taken from modules."""
        for alias in node.names:
            if alias.name in TOO_NEW:
                self._note(node, alias.name)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Arguments by name."""
        if node.arg in TOO_NEW_KEYWORDS:
            self._note(node, f"{node.arg}=")
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """``dict[str, int]`` where it is evaluated."""
        if isinstance(node.value, ast.Name) and node.value.id in BUILTIN_GENERICS:
            self._note(node, f"{node.value.id}[…]")
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Annotations are text there; only the value runs."""
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Alike."""
        for part in (*node.body, *node.decorator_list, *node.args.defaults):
            self.visit(part)

    def visit_If(self, node: ast.If) -> None:
        """What only type checkers see may be new."""
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)


def too_new(source: str) -> list[str]:
    """Give everything in a source that Python 3.7 does not know."""
    try:
        tree = ast.parse(source, feature_version=(3, 7))
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    finder = TooNew()
    finder.visit(tree)
    debug = [f"f-string {text}" for text in re.findall(r"""\bf["'][^"'\n]*\{[^{}"']*[^=!<>{]=\}""", source)]
    return finder.found + debug


@pytest.mark.parametrize("name", MODULES)
def test_the_source_is_python_3_7(name: str) -> None:
    assert too_new(MODULES[name].decode()) == []


@pytest.mark.parametrize(
    "sample",
    [
        "if (n := 3): pass",
        "def f(a, /): pass",
        "x = 'abc'.removeprefix('a')",
        "shutil.copytree(a, b, dirs_exist_ok=True)",
        "path.unlink(missing_ok=True)",
        "x = f'{y=}'",
        "import math\nmath.prod([2])",
        "@functools.cache\ndef f(): pass",
        "from typing import Protocol",
        "Json = dict[str, int]",
        "match x:\n    case 1: pass",
        "with (open(a) as b, open(c) as d): pass",
    ],
)
def test_the_check_finds_what_is_too_new(sample: str) -> None:
    assert too_new(sample) != []


@pytest.mark.parametrize("name", MODULES)
def test_only_the_standard_library_is_imported(name: str) -> None:
    tree = ast.parse(MODULES[name])
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    taken = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    plain |= {node.module or "" for node in taken if not node.level}
    assert {module.partition(".")[0] for module in plain} <= set(sys.stdlib_module_names)
    assert {node.module for node in taken if node.level} <= set(MODULES)
    assert {node.level for node in taken} <= {0, 1}


def test_the_parcel_holds_every_module() -> None:
    folder = package_file("node/boot.py").parent
    assert set(MODULES) == {file.stem for file in folder.iterdir() if file.suffix == ".py"}
    assert packed_helper().endswith(zlib.compress(marshal.dumps(MODULES, 2)))


IMPORT_EACH = """
import sys
def main(parcel):
    for name in {names}:
        for loaded in [key for key in sys.modules if key.startswith("sgdeploy-node")]:
            del sys.modules[loaded]
        __import__("sgdeploy-node." + name)
        assert type(sys.modules["sgdeploy-node." + name].__loader__).__name__ == "Importer"
        print(name)
"""


@pytest.mark.parametrize("tag", ["", "another-"])
def test_each_module_can_come_first(tag: str) -> None:
    """As bytecode and, where the tag is another, as source: no order of imports is the only one that works."""
    names = sorted(set(MODULES) - {"__init__", "main"})
    parcel = packed({**MODULES, "main": IMPORT_EACH.format(names=names).encode()})
    words = [sys.executable, *PYTHON_FLAGS, "-c", BOOTSTRAP]
    ended = subprocess.run(words, input=tag.encode() + parcel, capture_output=True, timeout=60, check=False)
    assert (ended.stdout.decode().split(), ended.stderr.decode()) == (names, "")


def test_no_module_is_longer_than_anybody_reads() -> None:
    assert [name for name, source in MODULES.items() if source.count(b"\n") > 300] == []
