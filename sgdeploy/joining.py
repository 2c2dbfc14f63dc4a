"""Joining the modules of a package into one script that reads like a program of one file.

Imports of each other and what is for type checkers only are taken out; other imports come first. That works for modules
that name each other as ``from .module import name`` at their top, and of which no two define the same name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

_TYPES = "TYPE_CHECKING"
_FUTURE = "from __future__ import annotations"


def join(modules: Mapping[str, str]) -> str:
    """Join modules, from those that need no other to ``__main__``; the docstring of ``__init__`` is that of the script.

    Args:
        modules: name → source.

    Raises:
        ValueError: they cannot be joined, or ``__main__`` needs not all of them.
    """
    trees = {name: ast.parse(text) for name, text in modules.items()}
    order = _in_order(trees)
    left = sorted(set(modules) - {"__init__", *order})
    if left:
        raise ValueError(f"__main__.py does not lead to {', '.join(left)}")
    _check_names({name: trees[name] for name in order})
    imports: set[str] = set()
    bodies = []
    for name in order:
        about = (ast.get_docstring(trees[name]) or "").partition("\n")[0]
        bodies.append(f"# {name}.py: {about}\n\n\n{_body(modules[name], trees[name], imports)}")
    first = sorted(imports - {_FUTURE}, key=lambda line: (line.startswith("from "), line))
    head = f'"""{ast.get_docstring(trees["__init__"], clean=False)}"""\n\n{_FUTURE}\n\n' + "\n".join(first)
    return "\n\n\n".join([head, *bodies]) + "\n"


def _check_names(trees: Mapping[str, ast.Module]) -> None:
    defined: dict[str, str] = {}
    for name, tree in trees.items():
        for word in _defined(tree):
            if defined.setdefault(word, name) != name:
                raise ValueError(f"{defined[word]}.py and {name}.py both define {word}")


def _in_order(trees: Mapping[str, ast.Module], name: str = "__main__", before: tuple[str, ...] = ()) -> list[str]:
    """Give a module after those that it imports, each once."""
    if name in before:
        raise ValueError(f"modules import each other in a circle: {' → '.join((*before, name))}")
    order: list[str] = []
    for other in _neighbours(trees[name]):
        order += [each for each in _in_order(trees, other, (*before, name)) if each not in order]
    return [*order, name]


def _neighbours(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            if not node.module or any(alias.asname for alias in node.names):
                raise ValueError(f"line {node.lineno}: only `from .module import name` can be joined")
            yield node.module


def _defined(tree: ast.Module) -> Iterator[str]:
    """Give the names that a module defines at its top."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not _for_types(node):
            found = (each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
            yield from (each.id for each in found)


def _body(text: str, tree: ast.Module, imports: set[str]) -> str:
    """Give what is left of a module without docstring, imports and what is for type checkers; adds to the imports."""
    lines = text.splitlines()
    for number, node in enumerate(tree.body):
        docstring = number == 0 and isinstance(node, ast.Expr)
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
            imports.add(ast.unparse(node))
        elif not (docstring or isinstance(node, ast.ImportFrom) or _for_types(node)):
            continue
        lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines).strip("\n")


def _for_types(node: ast.stmt) -> bool:
    named = node.test if isinstance(node, ast.If) else node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(named, ast.Name) and named.id == _TYPES
