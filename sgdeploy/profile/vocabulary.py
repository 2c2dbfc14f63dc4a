"""Which keys a schema knows at a spot, so that a mistyped one can be explained."""

from __future__ import annotations

import types
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Schema:
    """A schema, asked about the keys of one file.

    Attributes:
        model: schema of the whole file.
        tree: the plain values, which tell one alternative of a union from another.
    """

    model: type[BaseModel]
    tree: Any

    def keys(self, path: KeyPath) -> frozenset[str]:
        """List the keys that may stand in the mapping at ``path``; empty where any may."""
        return keys_at(self.model, path, self.tree)

    def fields(self, path: KeyPath) -> list[str]:
        """List the keys of the section at ``path`` in the order of the schema; nothing where it is no section."""
        found = (option for option in _descend(self.model, path, self.tree) if _is_model(option))
        return list(dict.fromkeys(name for option in found for name in option.model_fields))

    def has(self, path: KeyPath) -> bool:
        """Tell whether the schema has a key of its own there."""
        return self._field(path) is not None

    def knows(self, path: KeyPath) -> bool:
        """Tell whether the schema has a key of its own there, with a default."""
        field = self._field(path)
        return field is not None and not field.is_required()

    def default(self, path: KeyPath) -> Any:
        """Give the default of a key that the schema knows."""
        field = self._field(path)
        return None if field is None else field.get_default(call_default_factory=True)

    def describe(self, path: KeyPath) -> str:
        """Say what a key is for; "" where the schema does not say."""
        field = self._field(path)
        return (field.description or "") if field is not None else ""

    def _field(self, path: KeyPath) -> FieldInfo | None:
        for option in _descend(self.model, path[:-1], self.tree):
            if _is_model(option) and str(path[-1]) in option.model_fields:
                found: FieldInfo = option.model_fields[str(path[-1])]
                return found
        return None


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
