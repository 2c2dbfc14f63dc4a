"""What is declared is what is imported: no dependency too few, none too many."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import sgdeploy

PACKAGE = Path(sgdeploy.__file__).parent
PROJECT = PACKAGE.parent / "pyproject.toml"


def imported(node: ast.AST) -> Iterator[str]:
    """Name the top packages that a tree imports at run time, inside functions as well."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.level == 0 and child.module:
            yield child.module.partition(".")[0]
        yield from imported(child)


def test_every_package_that_is_imported_is_declared_and_no_other() -> None:
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")]
    foreign = {name for tree in trees for name in imported(tree)} - sys.stdlib_module_names - {"sgdeploy"}
    owners = packages_distributions()
    needed = {re.sub(r"[-_.]+", "-", owners[name][0]).lower() for name in foreign}
    assert declared() == needed


def declared() -> set[str]:
    """Name the dependencies of the project, each of which has a lower bound (Python 3.10 has no reader of TOML)."""
    block = re.search(r"^dependencies = \[\n(.*?)^\]", PROJECT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert block is not None
    names = re.findall(r'^    "([a-z0-9-]+)>=[0-9.]+",$', block[1], re.MULTILINE)
    assert len(names) == len(block[1].splitlines())
    return set(names)
