"""What a schema error means, in an operator's words: one problem per mistake, at the spot of the mistake."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sgdeploy.problems import Problem
from sgdeploy.profile.scalars import Secret
from sgdeploy.profile.suggest import did_you_mean, nearest
from sgdeploy.profile.vocabulary import homes_of, keys_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

    from sgdeploy.problems import KeyPath

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "dict_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("below", "lt"),
}
_SHOWN = 60
_EXTENDS: KeyPath = ("extends",)
_EXAMPLES: dict[KeyPath, str] = {
    ("version",): "write version: 1",
    ("name",): "write name: my-deployment",
    ("platform",): "write the hardware of the nodes, such as platform: kunpeng-920f",
    ("model",): "write model: {path: /path/of/the/weights}",
    ("native",): "write native: {hosts: …, parallel: {tp: …}}",
    ("prefill",): "write prefill: {hosts: …, parallel: {tp: …}}, or several by name",
    ("decode",): "write decode: {hosts: …, parallel: {tp: …}}, or several by name",
    ("router",): "write router: {host: …}",
}
_EXAMPLES_BELOW: dict[str | int, str] = {
    "hosts": 'write hosts: my-group, or a range such as hosts: "node[01-16]"',
    "host": "write host: name-of-the-host",
    "path": "write path: /path/of/the/weights",
}
"""Examples of keys that are needed below others."""

_MAIN_KEYS: dict[str | int, tuple[type, str]] = {
    "model": (str, "path: {}"),
    "native": (str, "hosts: {}, parallel: {{tp: …}}"),
    "prefill": (str, "hosts: {}, parallel: {{tp: …}}"),
    "decode": (str, "hosts: {}, parallel: {{tp: …}}"),
    "short": (str, "hosts: {}, parallel: {{tp: …}}"),
    "long": (str, "hosts: {}, parallel: {{tp: …}}"),
    "router": (str, "host: {}"),
    "engine": (str, "version: {}"),
    "parallel": (int, "tp: {}"),
    "rendezvous": (int, "port: {}"),
    "tokenizers": (int, "port: {}"),
    "groups": (int, "length_threshold: {}"),
    "health": (str, "timeout: {}"),
    "restart": (str, "policy: {}"),
    "ssh": (str, "user: {}"),
    "defaults": (str, "connection: {}"),
}
"""What a single value in the place of a section is mostly meant to be: its type, and the section that says so."""


def dotted(path: KeyPath) -> str:
    """Write a path as people do: ``native.hosts[2]``; a key that holds a dot is quoted."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            word = f'"{key}"' if re.search(r"[.\s]|^$", key) else key
            text += f".{word}" if text else word
    return text


def got(value: Any) -> str:
    """Describe a value that is not what was asked for."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'the text "{value if len(value) <= _SHOWN else value[:_SHOWN] + "…"}"'
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, Secret):
        return f"the secret {value}"
    return "a mapping" if isinstance(value, dict) else "a list"


def schema_problems(
    error: ValidationError, model: type[BaseModel], tree: Any, elsewhere: Callable[[KeyPath], str | None] | None = None
) -> list[Problem]:
    """Translate all errors of one validation.

    Args:
        error: what pydantic found.
        model: the schema, for the keys that are known at a spot.
        tree: the plain values that were validated.
        elsewhere: says of an unknown key why it is not known here although it is known elsewhere, or None.
    """
    problems: list[Problem] = []
    explained: set[KeyPath] = set()
    missing: dict[KeyPath, Problem] = {}
    absent = {_path(one, tree) for one in error.errors() if one["type"] == "missing"}
    for one in error.errors(include_url=False):
        path = _path(one, tree)
        if one["type"] == "missing":
            missing[path] = _missing(path)
        elif one["type"] == "extra_forbidden":
            problem, meant = _unknown(path, model, tree, absent, elsewhere(path) if elsewhere else None)
            problems.append(problem)
            explained.update({meant} if meant else set())
        else:
            problems.append(_translate(one, path))
    if _EXTENDS not in explained:  # a parent that was meant may hold whatever is missing here
        problems.extend(problem for path, problem in missing.items() if path not in explained)
    return problems


def _path(one: ErrorDetails, tree: Any) -> KeyPath:
    """Give the error's path without the names that pydantic adds for the branches of a union."""
    path: list[str | int] = []
    value = tree
    last = len(one["loc"]) - 1
    for index, key in enumerate(one["loc"]):
        in_list = isinstance(value, list) and isinstance(key, int) and key < len(value)
        if in_list or (isinstance(value, dict) and key in value):
            value = value[key]
        elif index != last or one["type"] != "missing":
            continue
        path.append(key)
    return tuple(path)


def _missing(path: KeyPath) -> Problem:
    where = f" in `{dotted(path[:-1])}`" if len(path) > 1 else ""
    hint = _EXAMPLES.get(path) or _EXAMPLES_BELOW.get(path[-1])
    return Problem(f"the key `{path[-1]}` is missing{where}", hint, path, at="key", code="key-missing")


def _unknown(
    path: KeyPath, model: type[BaseModel], tree: Any, absent: set[KeyPath], elsewhere: str | None
) -> tuple[Problem, KeyPath | None]:
    """Explain a key that the schema does not know; also tell which missing key it was probably meant to be."""
    word, above = str(path[-1]), path[:-1]
    known = keys_at(model, above, tree)
    present = _value_at(tree, above)
    free = known - set(present if isinstance(present, dict) else ())
    guess = did_you_mean(word, free) or did_you_mean(word, known)
    homes = [] if guess else homes_of(model, word)
    shown = {key for key in known if not key.startswith("$")}
    hint: str | None = None
    if guess:
        hint = f"did you mean `{guess}`?"
    elif elsewhere:
        hint = elsewhere
    elif homes:
        hint = f"this key belongs at `{'` or `'.join(homes[:3])}`"
    elif "flags" in known and re.fullmatch(r"[a-z][a-z0-9_-]*", word):
        hint = f"engine flags stand in `{dotted((*above, 'flags'))}`; other keys here: {nearest(word, shown)}"
    elif shown:
        hint = f"keys that may stand here: {nearest(word, shown)}"
    where = f" in `{dotted(above)}`" if above else ""
    problem = Problem(f"unknown key `{word}`{where}", hint, path, at="key", code="key-unknown")
    meant = (*above, guess) if guess else None
    return problem, meant if meant in absent or meant == _EXTENDS else None


def _value_at(tree: Any, path: KeyPath) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _translate(one: ErrorDetails, path: KeyPath) -> Problem:
    kind, value = one["type"], one["input"]
    context: Mapping[str, Any] = one.get("ctx", {})
    name = f"`{dotted(path)}`"
    if one["loc"] and one["loc"][-1] == "[key]":
        return _bad_key(path, context, kind)
    code = "value-range"
    hint: str | None = None
    if kind in _WANTED:
        text, code = f"must be {_WANTED[kind]}, got {got(value)}", "value-type"
        hint = _section_hint(path, value) if _WANTED[kind] == "a mapping" else _type_hint(kind, value)
    elif kind in _LIMITS:
        word, limit = _LIMITS[kind]
        text = f"must be {word} {context[limit]}, got {value}"
    elif kind == "literal_error":
        text, hint = f"must be {_quoted(context['expected'])}, got {got(value)}", _word_hint(value, context["expected"])
    elif kind == "string_pattern_mismatch":
        text, hint = f"cannot be {got(value)}", _pattern_hint(context["pattern"])
    elif kind == "string_too_short":
        text = "must not be empty"
    elif kind == "refused":
        text, hint = context["text"] + (f", got {got(value)}" if context["shows"] else ""), context["hint"]
    elif kind == "shape":
        text, hint, code = f"{one['msg']}, got {got(value)}", _section_hint(path, value), "value-type"
    else:
        text = one["msg"][:1].lower() + one["msg"][1:]
    return Problem(f"{name} {text}", hint, path, code=code)


def _bad_key(path: KeyPath, context: Mapping[str, Any], kind: str) -> Problem:
    hint = _pattern_hint(context["pattern"]) if kind == "string_pattern_mismatch" else None
    where = f" in `{dotted(path[:-1])}`" if len(path) > 1 else ""
    return Problem(f"`{path[-1]}` cannot be a name{where}", hint, path, at="key", code="key-name")


def _quoted(expected: str) -> str:
    return expected.replace("'", "`")


def _word_hint(value: Any, expected: str) -> str | None:
    words = re.findall(r"'([^']*)'", expected)
    guess = did_you_mean(value, words) if isinstance(value, str) else None
    if guess:
        return f"did you mean `{guess}`?"
    return f"write {value} without quotes" if isinstance(value, str) and value in re.split(r"\W+", expected) else None


def _pattern_hint(pattern: str) -> str:
    if "A-Z" in pattern:
        return "use letters, digits and underscores, and begin with no digit"
    return "use lower-case letters, digits and dashes, at most 63, and begin with no dash"


def _section_hint(path: KeyPath, value: Any) -> str | None:
    """Write the section that a single value in its place is meant to be; nothing where that cannot be told."""
    kind, section = _MAIN_KEYS.get(path[-1], (object, "")) if path else (object, "")
    if not section or type(value) is not kind or len(str(value)) > _SHOWN:
        return None
    word = value if re.fullmatch(r"[\w./~-]+", str(value)) else f'"{value}"'
    return f"write {path[-1]}: {{{section.format(word)}}}"


def _type_hint(kind: str, value: Any) -> str | None:
    """Say what to write instead, where the value shows what was meant."""
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        return f'put it in quotes: "{str(value).lower() if isinstance(value, bool) else value}"'
    if kind == "list_type" and isinstance(value, (str, int)):
        return f"a list is written [{value}]"
    if not isinstance(value, str):
        return None
    text = value.strip().replace("_", "").replace(",", "")
    if kind == "bool_type" and text.lower() in {"yes", "on", "no", "off", "true", "false"}:
        return f"write {'true' if text.lower() in {'yes', 'on', 'true'} else 'false'}, without quotes"
    if kind in {"int_type", "float_type"} and re.fullmatch(r"[-+]?[0-9]+", text):
        return f"write {int(text[:30])}, without quotes, leading zeros or separators"
    return None
