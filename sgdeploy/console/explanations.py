"""Where values come from, for people: the value, what set it, what that overrode, each with its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.text import Text

from sgdeploy.console.text import clean, grid
from sgdeploy.problems import COMMAND_LINE
from sgdeploy.words import name_list, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sgdeploy.plan.explain.said import Answer, Explanation, Said
    from sgdeploy.problems import Place

_SHOWN = 3
"""So many different values are written out; more are counted."""
_WORDS = {"holds": ("set by", "green"), "overridden": ("over", "dim"), "cause": ("from", "cyan")}


def explanation_lines(explanations: Iterable[Explanation]) -> list[Text]:
    """Show explanations, a blank line between two that are about processes."""
    lines: list[Text] = []
    for each in explanations:
        if lines and each.kind != "key":
            lines.append(Text())
        lines += _explanation(each)
    return lines


def _explanation(each: Explanation) -> Iterator[Text]:
    about = Text(f"  ({clean(each.about)})" if each.about else "", "dim")
    if each.kind == "key":
        (answer,) = each.answers
        yield Text.assemble((clean(each.name), "bold"), f" = {_value(answer.values[0][0])}", about)
        yield from _said(answer.said, each.name)
        return
    program = f" of {clean(each.program)}" if each.program else ""
    yield Text.assemble((clean(each.name), "bold"), program, about)
    for answer in each.answers:
        yield from _values(answer)
        yield from _said(answer.said)


def _values(answer: Answer) -> Iterator[Text]:
    """Give a line for each value, or one for many."""
    labels = [label for _, names in answer.values for label in names]
    if len(answer.values) > _SHOWN:
        first, last = _value(answer.values[0][0]), _value(answer.values[-1][0])
        some = (f"{first} … {last} ({len(answer.values)} values)", "bold")
        yield Text.assemble("  ", some, f" in {_processes(labels)}")
        return
    for value, names in answer.values:
        yield Text.assemble("  ", (_value(value), "bold"), f" in {_processes(names)}")


def _processes(labels: Sequence[str]) -> str:
    return f"{plural(len(labels), 'process')}: {name_list(map(clean, labels))}"


def _said(said: Sequence[Said], key: str = "") -> list[Text]:
    """Give a row for each word; what holds for a key says no more than its head does, so its place is enough."""
    rows = []
    for each in said:
        word, style = _WORDS[each.standing]
        place = _place(each.place) if each.place is not None else "-"
        rows.append((Text(word, style), place, "" if each.who == key and each.standing == "holds" else _word(each)))
    return grid(rows, indent=4)


def _place(place: Place) -> str:
    """Name a spot; of the command line, which of its --set it is, counted from 1."""
    return f"--set no. {place.line}" if place.file == COMMAND_LINE else clean(str(place))


def _word(each: Said) -> str:
    """Give what was said, in one line."""
    value = "" if each.value is None and each.note else f": {_value(each.value)}"
    causes = ", ".join(
        f"{cause.key} ({'not set' if cause.place is None else _place(cause.place)})" for cause in each.causes
    )
    follows = f", following {causes}" if causes else ""
    return clean(f"{each.who}{value}{follows}" + (f"  ({each.note})" if each.note else ""))


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return clean(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False))
