"""What becomes of what runs, for people: unit by unit, with what changed in the words of ``plan --diff``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from sgdeploy.console.differences import changed_lines
from sgdeploy.console.text import clean
from sgdeploy.words import name_list, plural

if TYPE_CHECKING:
    from sgdeploy.deploy.replan import Replan, UnitFate

_STYLE = {"keep": "green", "start": "cyan", "restart": "bold yellow", "stop": "bold red", "leave": "dim"}
_WORDS = {
    "restart": ("restarts", "restart"),
    "stop": ("stops", "stop"),
    "start": ("starts", "start"),
    "keep": ("goes on", "go on"),
    "leave": ("is left alone", "are left alone"),
}
_WIDTH = max(map(len, _WORDS)) + 2


def replan_lines(fates: Replan) -> list[Text]:
    """Show what a plan makes of what runs."""
    name = clean(fates.plan.name)
    if fates.same:
        return [Text(f"no difference: {name} runs as planned")]
    lines = [Text.assemble((name, "bold"), f": {_counted(fates)}")]
    for unit in fates.units:
        if unit.fate != "keep":
            lines += _unit(unit)
    if kept := fates.of("keep"):
        lines.append(_head("keep", name_list(map(clean, kept))))
    if fates.stale and not fates.of("start", "restart", "stop"):
        lines.append(Text("  nothing restarts for the rest: it is about no process, and is written on record"))
    return lines


def _counted(fates: Replan) -> str:
    if not fates.runs:
        return "nothing runs; all of it starts"
    parts = []
    for fate, (one, many) in _WORDS.items():
        count = sum(unit.fate == fate for unit in fates.units)
        if count:
            parts.append(f"{plural(count, 'unit')} {one if count == 1 else many}")
    return ", ".join(parts)


def _head(fate: str, text: str) -> Text:
    return Text.assemble("  ", (fate, _STYLE[fate]), " " * (_WIDTH - len(fate)), text)


def _unit(unit: UnitFate) -> Iterator[Text]:
    why = "; ".join(map(clean, unit.reasons))
    where = f" ({plural(unit.living, 'process')} on {name_list(map(clean, unit.hosts))})" if unit.living else ""
    yield _head(unit.fate, f"{clean(unit.unit)}{where}{': ' if why else ''}{why}")
    if unit.changed:
        yield from changed_lines(unit.changed, indent=4)
