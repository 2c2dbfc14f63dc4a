"""Which keys a schema knows at a spot, so that a mistyped one can be explained."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Discriminator, Tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

    from sgdeploy.problems import KeyPath


def keys_at(model: type[BaseModel], path: KeyPath, tree: Any) -> frozenset[str]:
    """List the keys that may stand in the mapping at ``path``; empty where any may.

    Args:
        model: schema of the whole file.
        path: the mapping.
        tree: the plain values, which tell one alternative of a union from another.
    """
    keys: set[str] = set()
    for option in _descend(model, path, tree):
        if _is_model(option):
            keys.update(option.model_fields)
            keys.update(getattr(option, "reader_keys", ()))
    return frozenset(keys)


def homes_of(model: type[BaseModel], key: str) -> list[str]:
    """List the dotted paths below ``model`` at which a key of this name may stand."""
    return sorted(set(_homes(model, key, (), ())))


def _homes(annotation: Any, key: str, path: tuple[str, ...], above: tuple[Any, ...]) -> Iterator[str]:
    for option in _options(annotation, None):
        if not _is_model(option) or option in above:
            continue
        for name, field in option.model_fields.items():
            if name == key:
                yield ".".join((*path, name))
            yield from _homes(_annotation(field), key, (*path, name), (*above, option))


def _descend(annotation: Any, path: KeyPath, value: Any) -> Iterator[Any]:
    for option in _options(annotation, value):
        if not path:
            yield option
            continue
        key, rest = path[0], path[1:]
        below = _below(value, key)
        if _is_model(option):
            field = option.model_fields.get(str(key))
            if field is not None:
                yield from _descend(_annotation(field), rest, below)
        elif get_origin(option) in {dict, list, tuple}:
            yield from _descend(get_args(option)[-1], rest, below)


def _annotation(field: FieldInfo) -> Any:
    """Give a field's type with its discriminator, which pydantic keeps beside it."""
    marks = [mark for mark in (*field.metadata, field.discriminator) if isinstance(mark, Discriminator)]
    return Annotated[field.annotation, marks[0]] if marks else field.annotation


def _below(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    return value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None


def _options(annotation: Any, value: Any, tag: str | None = None) -> Iterator[Any]:
    """List the alternatives of a type: the one that the value is meant to be where that can be told, else all."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        marks = [mark.tag for mark in arguments[1:] if isinstance(mark, Tag)]
        if tag is not None and marks and tag not in marks:
            return
        choosers = [mark.discriminator for mark in arguments[1:] if isinstance(mark, Discriminator)]
        chosen = choosers[0](value) if choosers and callable(choosers[0]) and value is not None else None
        yield from _options(arguments[0], value, None if chosen is None else str(chosen))
    elif origin in {Union, types.UnionType}:
        for option in arguments:
            yield from _options(option, value, tag)
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
