"""Events as plain lines, one idea a line: what a pipe, a CI log and the space above the live table get."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from rich.text import Text

from sgdeploy.console.live import STYLES, counted
from sgdeploy.console.replans import replan_lines
from sgdeploy.console.text import clean, duration
from sgdeploy.deploy.events import (
    Completion,
    Event,
    Heartbeat,
    HostState,
    Note,
    Outcome,
    ProcessFailed,
    RankState,
    Replanned,
    Step,
)
from sgdeploy.errors import ProcessFault
from sgdeploy.words import name_list, plural

PROMPT_SHOWN = 60
"""Characters of a prompt that are shown; the long one that proves two buckets has thousands."""


@singledispatch
def event_lines(event: Event) -> list[Text]:
    """Give the lines of one event; an event of an unknown kind is shown by its fields, never dropped."""
    fields = "  ".join(f"{key}={clean(str(value))}" for key, value in event.to_json().items() if key != "event")
    return [Text(f"{event.kind}: {fields}")]


@event_lines.register
def _step(event: Step) -> list[Text]:
    return [Text(f"[{event.number}/{event.of}] {clean(event.title)}", "bold")]


@event_lines.register
def _note(event: Note) -> list[Text]:
    style = "bold yellow" if event.level == "warning" else "cyan"
    word = "warning" if event.level == "warning" else "note"
    hosts = f"{clean(name_list(event.hosts))}: " if event.hosts else ""
    return [Text.assemble((f"{word}: ", style), hosts, clean(event.message)), *hint_lines(event.hint)]


@event_lines.register
def _host(event: HostState) -> list[Text]:
    detail = f" ({clean(event.detail)})" if event.detail else ""
    style = STYLES.get(event.state, "")
    return [Text.assemble(f"{clean(event.host)}: ", (clean(event.state), style), detail)]


@event_lines.register
def _rank(event: RankState) -> list[Text]:
    if not event.changed or event.phase == "started":  # its host has just said that it started it
        return []
    phase = f", {clean(event.phase)}" if event.phase not in {"", event.state} else ""
    return [
        Text.assemble(
            f"{clean(event.host)}: {short(event.process)} ",
            (event.state, STYLES[event.state]),
            f"{phase} ({duration(event.seconds)})",
        )
    ]


@event_lines.register
def _heartbeat(event: Heartbeat) -> list[Text]:
    counts = counted(event.counts.items())
    waiting = f"; waiting for {clean(event.waiting_for)}" if event.waiting_for else ""
    return [Text.assemble(f"after {duration(event.seconds)}: ", counts, waiting)]


@event_lines.register
def _failed(event: ProcessFailed) -> list[Text]:
    return failure_lines([event]) + evidence_lines(event.lines, event.log)


@event_lines.register
def _completion(event: Completion) -> list[Text]:
    first = "" if event.first_token is None else f", the first after {event.first_token:.2f} s"
    prefill = "" if event.prefill is None else f", by {clean(event.prefill)}"
    head = f"completion: {plural(event.tokens, 'token')} in {event.seconds:.2f} s{first}{prefill}"
    prompt, rest = event.prompt[:PROMPT_SHOWN], len(event.prompt) - PROMPT_SHOWN
    more = f" and {plural(rest, 'character')} more" if rest > 0 else ""
    return [Text.assemble((head, "green"), f": {clean(prompt)!r}{more} → {clean(event.text)!r}")]


@event_lines.register
def _replan(event: Replanned) -> list[Text]:
    return replan_lines(event.fates)


@event_lines.register
def _outcome(event: Outcome) -> list[Text]:
    style = "bold green" if event.outcome == "ready" else "bold"
    return [Text.assemble((f"{clean(event.outcome)}: ", style), f"{clean(event.message)} ({duration(event.seconds)})")]


def short(process: str) -> str:
    """Give a process id below its deployment: ``native/n01/r07``."""
    return clean(process.partition("/")[2] or process)


def hint_lines(hint: str | None, indent: int = 2) -> list[Text]:
    """Give the line of a hint, or none."""
    return [Text.assemble(" " * indent, ("hint: ", "cyan"), clean(hint))] if hint else []


def failure_lines(alike: Sequence[ProcessFailed | ProcessFault]) -> list[Text]:
    """Name processes that failed in the same way, on which hosts, how, and how long the news took."""
    delays = [each.seconds_to_report for each in alike if each.seconds_to_report is not None]
    death, most = ("its death", "") if len(alike) == 1 else ("their deaths", "at most ")
    delay = f" (reported {most}{duration(max(delays))} after {death})" if delays else ""
    names, hosts = name_list(short(each.process) for each in alike), clean(name_list(each.host for each in alike))
    return [Text.assemble((f"{names} failed", "bold red"), f" on {hosts}: {clean(alike[0].reason)}{delay}")]


def evidence_lines(lines: tuple[str, ...], log: str) -> list[Text]:
    """Give the last log lines behind a bar, and where the whole log lies."""
    shown = [Text.assemble("  ", ("| ", "dim"), clean(line)) for line in lines]
    return shown + ([Text(f"  log: {clean(log)}")] if log else [])
