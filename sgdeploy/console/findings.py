"""What a diagnosis found, for people: the cause, the lines that show it, the next step, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.text import Text

from sgdeploy.console.text import clean, cut
from sgdeploy.words import name_list, plural

if TYPE_CHECKING:
    from sgdeploy.diagnose.model import Diagnosis, Evidence, Finding, Seen
    from sgdeploy.errors import Cause

_SHOWN = 240
"""Characters of a log line; what tells stands at its begin."""

_MOST = 8
"""So many processes are shown phase by phase where nothing is wrong."""


def diagnosis_lines(diagnosis: Diagnosis, unreachable: dict[str, str]) -> list[Text]:
    """Show a whole diagnosis."""
    lines = [line for number, each in enumerate(diagnosis.findings) for line in _finding(each, first=number == 0)]
    if not diagnosis.findings:
        until = "" if diagnosis.stopped is None else f" until sgdeploy took it down at {_local(diagnosis.stopped)}"
        lines = [Text(f"nothing wrong found in {plural(len(diagnosis.seen), 'log')}{until}", "bold green")]
        lines += _phases(diagnosis.seen)
    lines += _grouped("follows: ", diagnosis.consequences)
    lines += _grouped("note: ", diagnosis.notes)
    return lines + [
        Text.assemble(("warning: ", "bold yellow"), f"{clean(host)} could not be asked: {clean(reason)}")
        for host, reason in unreachable.items()
    ]


def cause_lines(cause: Cause, indent: int = 2) -> list[Text]:
    """Show a cause below the process that it is about."""
    space = " " * indent
    return [
        Text.assemble(space, ("cause: ", "bold red"), said(cause), (f"  [{cause.rule}]", "dim")),
        *(Text.assemble(space, ("| ", "dim"), cut(clean(each), _SHOWN)) for each in cause.evidence[:1]),
        Text.assemble(space, ("next: ", "cyan"), clean(cause.next)),
    ]


def _local(moment: float) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def _finding(found: Finding, *, first: bool) -> list[Text]:
    word = "cause: " if first else "also wrong: "
    return [
        Text.assemble((word, "bold red"), (clean(found.where), "bold"), f": {said(found)}"),
        *(_line(each) for each in found.evidence),
        Text.assemble("  ", ("next: ", "cyan"), clean(found.next)),
        Text(f"  rule {found.rule}; known from: {clean(found.source)}", "dim"),
    ]


def said(found: Finding | Cause) -> str:
    """Give the sentence without the process that it begins with: that stands in front of it already."""
    return clean(found.cause.removeprefix(f"{found.process} "))


def _line(each: Evidence) -> Text:
    place = f"{clean(each.path)}:{each.line}" if each.line else clean(each.path)
    return Text.assemble(f"  {place} ", ("| ", "dim"), cut(clean(each.text), _SHOWN))


def _grouped(word: str, found: Sequence[Finding]) -> Iterable[Text]:
    """Tell each sentence once, with all processes that it holds for."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for each in found:
        sentence = said(each)
        groups.setdefault((each.rule, sentence), []).append(each)
    for (rule, sentence), same in groups.items():
        names = clean(name_list(dict.fromkeys(each.process for each in same)))
        yield Text.assemble((word, "cyan"), f"{names}: {sentence}", (f"  [{rule}]", "dim"))


def _phases(seen: Sequence[Seen]) -> Iterable[Text]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for each in seen:
        groups.setdefault(each.phases, []).append(each.process)
    for phases, names in list(groups.items())[:_MOST]:
        way = " → ".join(phases) if phases else "no phase was seen"
        yield Text.assemble("  ", (f"{clean(name_list(names))}: ", "bold"), way)
    if len(groups) > _MOST:
        yield Text(f"  and {len(groups) - _MOST} others")
