"""The shelf of families and schemes: those that ship, and a scheme file of the operator's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from sgdeploy.problems import Problem
from sgdeploy.profile.compose import compose
from sgdeploy.profile.messages import schema_problems
from sgdeploy.profile.nodes import plain
from sgdeploy.profile.places import Places
from sgdeploy.profile.source import Source, read
from sgdeploy.profile.suggest import did_you_mean
from sgdeploy.weights.cut.schema import Family, Scheme, SchemeFile

_DATA = files("sgdeploy.weights.cut") / "data"


def scheme_names() -> tuple[str, ...]:
    """Name the schemes that ship."""
    return _names("schemes")


def _names(kind: str) -> tuple[str, ...]:
    return tuple(sorted(entry.name.removesuffix(".yaml") for entry in (_DATA / kind).iterdir()))


@cache
def _families() -> tuple[Family, ...]:
    return tuple(Family.model_validate(_shipped("families", name)) for name in _names("families"))


def _shipped(kind: str, name: str) -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = yaml.safe_load((_DATA / kind / f"{name}.yaml").read_text(encoding="utf-8"))
    return loaded


def family(config: Mapping[str, Any], scheme: Scheme) -> Family | Problem:
    """Find the family of a model: by the scheme's word, else by what the configuration calls it."""
    named = config.get("architectures")
    words = [scheme.family] if scheme.family else [str(word) for word in named] if isinstance(named, list) else []
    for found in _families():
        if set(words) & set(found.architectures):
            return found
    known = sorted(word for found in _families() for word in found.architectures)
    message = f"no family of models describes {' '.join(words) or 'a model without architectures in its config.json'}"
    hint = f"known: {' '.join(known)}. A scheme file with `family: NAME`, or `rows`, can describe a relative of one"
    return Problem(message, hint, code="architecture")


def scheme(word: str) -> tuple[Scheme | None, list[Problem]]:
    """Find a scheme: by the name of one that ships, or in a file (a word with a slash or a dot)."""
    if word in scheme_names():
        return _resolve(word, SchemeFile.model_validate(_shipped("schemes", word))), []
    if "/" not in word and "." not in word:
        guess = did_you_mean(word, scheme_names())
        hint = f"did you mean {guess}?" if guess else f"one of: {', '.join(scheme_names())}; or the path of a file"
        return None, [Problem(f"no scheme named {word} ships with sgdeploy", hint, code="scheme-unknown")]
    return _from_file(Path(word))


def _from_file(path: Path) -> tuple[Scheme | None, list[Problem]]:
    source = read(path, str(path), path.absolute().parent)
    if isinstance(source, Problem):
        return None, [source]
    tree, problems = _tree(source)
    if tree is None:
        return None, problems
    values, places = tree
    try:
        written = SchemeFile.model_validate(values)
    except ValidationError as error:
        return None, [places.place(problem) for problem in schema_problems(error, _model(), values)]
    if written.extends is not None and written.extends not in scheme_names():
        hint = f"one of: {', '.join(scheme_names())}"
        wrong = Problem(f"no scheme named {written.extends} ships with sgdeploy", hint, ("extends",))
        return None, [places.place(wrong)]
    found = _resolve(path.stem, written)
    if found is None:
        wrong = Problem("a scheme that extends none must say everything", "write `extends: upstream`", at="key")
        return None, [places.place(wrong)]
    return found, []


def _model() -> type[BaseModel]:
    return SchemeFile


def _tree(source: Source) -> tuple[tuple[dict[str, Any], Places] | None, list[Problem]]:
    node, problems = compose(source)
    if node is None or not isinstance(node.content, dict) or problems:
        empty = Problem("a scheme is a mapping; this file holds none", place=source.place(0, 0), code="scheme")
        return None, problems or [empty]
    return (plain(node), Places(node)), []


def _resolve(name: str, written: SchemeFile) -> Scheme | None:
    """Fill a scheme in from the one that it extends; None where something is missing all the same."""
    base = written.model_dump(exclude_none=True, exclude={"extends", "rows", "classes"})
    rows, classes = written.rows, dict(written.classes)
    if written.extends is not None:
        parent = _resolve(written.extends, SchemeFile.model_validate(_shipped("schemes", written.extends)))
        if parent is not None:
            inherited = parent.model_dump(exclude_none=True, exclude={"name", "rows", "classes"})
            base = inherited | {key: value for key, value in base.items() if value != ""}
            rows, classes = rows + parent.rows, {**parent.classes, **classes}
    try:
        return Scheme.model_validate({**base, "name": name, "classes": classes, "rows": rows})
    except ValidationError:
        return None
