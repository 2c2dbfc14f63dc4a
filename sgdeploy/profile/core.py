"""Which value an unquoted YAML scalar stands for: the core schema of YAML 1.2, and stricter where that is safer.

Only ``true`` and ``false`` are booleans (``on``, ``off``, ``yes`` and ``no`` are text, so that ``known_hosts: off``
means what it says); ``12:30`` is text and no number of minutes; a number with a leading zero is text, since YAML 1.1
reads ``010`` as 8 and YAML 1.2 as 10; dates are text.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

STR, NULL, BOOL, INT, FLOAT, MERGE = (
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "null", "bool", "int", "float", "merge")
)

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9].*")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_DIGITS = 300
"""Longer digit strings are text: no setting needs them, and Python refuses to convert thousands of digits."""


def plain_tag(text: str) -> str:
    """Tell the type of an unquoted scalar."""
    if text in _NULLS:
        return NULL
    if text in _BOOLS:
        return BOOL
    if text == "<<":
        return MERGE
    if len(text) > _MAX_DIGITS:
        return STR
    if _INT.fullmatch(text):
        return INT
    number = _FLOAT.fullmatch(text) and not _LEADING_ZERO.fullmatch(text)
    return FLOAT if number or _SPECIAL.fullmatch(text) else STR


def convert(tag: str, text: str) -> str | int | float | bool | None:
    """Turn the text of a scalar into the value of its type.

    Raises:
        ValueError: the text does not fit the type (only possible for an explicit tag such as ``!!int x``), or the tag
            is not one of ours.
    """
    if tag == STR:
        return text
    if tag == NULL and text in _NULLS:
        return None
    if tag == BOOL and text in _BOOLS:
        return _BOOLS[text]
    if tag == INT and _INT.fullmatch(text):
        return int(text, 0)
    if tag == FLOAT and (_FLOAT.fullmatch(text) or _SPECIAL.fullmatch(text)):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    raise ValueError(text)


class CoreLoader(yaml.SafeLoader):
    """Composes nodes with the tags above; it never constructs an object."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        """Give the tag of a node that names none itself; called by the composer."""
        if kind is yaml.ScalarNode:
            return plain_tag(value) if implicit[0] else STR
        return "tag:yaml.org,2002:seq" if kind is yaml.SequenceNode else "tag:yaml.org,2002:map"
