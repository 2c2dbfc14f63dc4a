"""How two plans differ, for people: what all have in common is said once, what varies is summed up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from sgdeploy.console.plans import pages_text
from sgdeploy.console.text import clean, grid
from sgdeploy.plan.compare import SWITCH, Change, Difference, Members, alike
from sgdeploy.plan.model import Hugepages
from sgdeploy.words import name_list, number_list, plural

if TYPE_CHECKING:
    from sgdeploy.plan.model import Plan

_SHOWN = 3
"""So many different changes of one kind are written out; more are counted."""


def difference_lines(found: Difference, before: tuple[str, Plan], after: tuple[str, Plan]) -> list[Text]:
    """Show a difference.

    Args:
        found: what differs.
        before: what people call the plan before, and the plan.
        after: what people call the plan after, and the plan.
    """
    if found.same:
        return [Text(f"no difference: {clean(after[0])} plans what {clean(before[0])} does")]
    names = [("-", clean(before[0]), before[1].digest), ("+", clean(after[0]), after[1].digest)]
    lines = grid([(Text(sign, _STYLE[sign]), name, digest) for sign, name, digest in names])
    if found.whole:
        lines += [Text(), Text("deployment", "bold"), *_rows([(change,) for change in found.whole], indent=2)]
    return [*lines, *_members("hosts", "host", found.hosts), *_members("processes", "process", found.processes)]


_STYLE = {"-": "red", "+": "green"}


def _members(title: str, noun: str, found: Members) -> Iterator[Text]:
    if found.same:
        return
    counts = [f"{len(found.changed)} of {plural(found.total, noun)} changed"] if found.changed else []
    counts += [f"{len(names)} {word}" for names, word in ((found.new, "new"), (found.gone, "gone")) if names]
    yield Text()
    yield Text.assemble((title, "bold"), f": {', '.join(counts)}")
    for sign, names in (("-", found.gone), ("+", found.new)):
        if names:
            yield Text.assemble("  ", (sign, _STYLE[sign]), f" {name_list(map(clean, names))}")
    yield from changed_lines(found.changed, indent=2)


def changed_lines(changed: Mapping[str, tuple[Change, ...]], indent: int) -> Iterator[Text]:
    """Show what changed in some members, those in which the same things did together.

    Args:
        changed: name → what differs.
        indent: spaces before the names.
    """
    for members, rows in alike(changed):
        yield Text.assemble(" " * indent, (name_list(map(clean, members)), "bold"))
        yield from _rows(rows, indent=indent + 2)


def _rows(rows: Sequence[Sequence[Change]], indent: int) -> list[Text]:
    """Give a row for each thing that changed, in one or in many members."""
    return grid([(clean(row[0].what), _both(row)) for row in rows], indent=indent)


def _both(row: Sequence[Change]) -> Text:
    pairs = list(dict.fromkeys((_text(change.what, change.before), _text(change.what, change.after)) for change in row))
    befores, afters = (list(dict.fromkeys(side)) for side in zip(*pairs, strict=True))
    more = f"   ({len(pairs)} different ones)" if len(pairs) > _SHOWN else ""
    return Text.assemble((_few(befores), "red"), " → ", (_few(afters), "green"), more)


def _few(values: Sequence[str]) -> str:
    return ", ".join(values) if len(values) <= _SHOWN else f"{values[0]} … {values[-1]}"


def _text(what: str, value: Any) -> str:
    if value is None:
        return "nothing"
    if value == "":
        return '""'
    if value is SWITCH and what.startswith("--"):
        return "set"
    if what in {"cores", "memory_nodes"}:
        return number_list(value, strides=True)
    if what == "hugepages":
        return pages_text(map(Hugepages.model_validate, value))
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
