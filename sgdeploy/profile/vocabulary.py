"""Which keys a schema knows at a spot, so that a mistyped one can be explained."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sgdeploy.problems import KeyPath


def keys_at(model: type[BaseModel], path: KeyPath, tree: Any) -> frozenset[str]:
    """List the keys that may stand in the mapping at ``path``; empty where any may.

    Args:
        model: schema of the whole file.
        path: the mapping.
        tree: the plain values, which tell one alternative of a union from another.
    """
    keys: set[str] = set()
    for annotation in _descend(model, path, tree):
        if _is_model(annotation):
            keys.update(annotation.model_fields)
    return frozenset(keys)


def homes_of(model: type[BaseModel], key: str) -> list[str]:
    """List the dotted paths below ``model`` at which a key of this name may stand."""
    return sorted(_homes(model, key, (), ()))


def _homes(annotation: Any, key: str, path: tuple[str, ...], above: tuple[Any, ...]) -> Iterator[str]:
    for option in _options(annotation):
        if not _is_model(option) or option in above:
            continue
        for name, field in option.model_fields.items():
            if name == key:
                yield ".".join((*path, name))
            yield from _homes(field.annotation, key, (*path, name), (*above, option))


def _descend(annotation: Any, path: KeyPath, value: Any) -> Iterator[Any]:
    for option in _options(annotation):
        if not path:
            yield option
            continue
        key, rest = path[0], path[1:]
        below = _below(value, key)
        if _is_model(option):
            field = option.model_fields.get(str(key))
            if field is not None:
                yield from _descend(field.annotation, rest, below)
        elif get_origin(option) in {dict, list, tuple}:
            yield from _descend(get_args(option)[-1], rest, below)


def _below(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    return value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None


def _options(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _options(get_args(annotation)[0])
    elif origin in {Union, types.UnionType}:
        for option in get_args(annotation):
            yield from _options(option)
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
