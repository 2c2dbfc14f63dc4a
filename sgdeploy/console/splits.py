"""Splits of weights: the plan as tables, progress as a line per host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from sgdeploy.console.lines import event_lines
from sgdeploy.console.text import clean, duration, grid
from sgdeploy.deploy.events import Event, SplitProgress
from sgdeploy.weights.cut.text import bytes_text
from sgdeploy.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sgdeploy.weights.cut.report import Report

PLAIN_INTERVAL = 10.0
"""Seconds between two lines of progress where each is a line of its own."""

_BAR = 24
_NUMBERS = 3
_NAMED = 6


class SplitPicture:
    """Progress on a terminal: a bar, bytes, rate and time left, a line for each host."""

    def __init__(self) -> None:
        """Start empty."""
        self._hosts: dict[str, SplitProgress] = {}

    def hear(self, event: Event, now: float) -> None:
        """Take one event in."""
        del now
        if isinstance(event, SplitProgress):
            self._hosts[event.host] = event

    def lines(self, now: float, *, width: int | None, height: int | None) -> list[Text]:
        """Draw it; where hosts do not fit, those that are furthest behind are shown."""
        del now
        shown = list(self._hosts.values())
        if height is not None and len(shown) > height - _NUMBERS:
            shown = sorted(shown, key=_share)[: max(height - _NUMBERS, 1)]
        rows = [Text.assemble(_head(event), _bar(_share(event)), " ", _numbers(event)) for event in shown]
        if len(shown) < len(self._hosts):
            rows.append(Text(f"… and {plural(len(self._hosts) - len(shown), 'host')} further on", "dim"))
        for row in rows:
            if width is not None:
                row.truncate(width, overflow="ellipsis")
        return rows


class Pace:
    """Lets progress through where each event is a line: every ten seconds for each host, and the end once."""

    def __init__(self) -> None:
        """Nothing has been let through."""
        self._last: dict[str, float] = {}
        self._over: dict[str, str] = {}

    def due(self, event: SplitProgress, now: float) -> bool:
        """Tell whether an event is worth a line now."""
        last = self._last.setdefault(event.host, now)
        told = self._over.get(event.host) == event.doing if event.ended else now - last < PLAIN_INTERVAL
        if told:
            return False
        self._over[event.host] = event.doing if event.ended else ""
        self._last[event.host] = now
        return True


@event_lines.register
def _progress(event: SplitProgress) -> list[Text]:
    return [Text.assemble(_head(event), _numbers(event))]


def _head(event: SplitProgress) -> str:
    host = f"{clean(event.host)}: " if event.host else ""
    return host + ("verifying " if event.doing == "verify" else "")


def _share(event: SplitProgress) -> float:
    if event.of_bytes:
        return min(event.written / event.of_bytes, 1.0)
    return 1.0 if event.ended else 0.0


def _bar(share: float) -> Text:
    full = int(share * _BAR)
    return Text.assemble(("━" * full, "green"), ("━" * (_BAR - full), "dim"))


def _numbers(event: SplitProgress) -> str:
    files = "" if event.doing == "verify" else f"{event.files} of {plural(event.of_files, 'file')}, "
    parts = [f"{files}{bytes_text(event.written)} of {bytes_text(event.of_bytes)}"]
    if event.rate:
        parts.append(f"{bytes_text(event.rate)}/s")
    if event.left is not None and not event.ended:
        parts.append(f"{duration(event.left)} left")
    return ", ".join(parts)


def split_lines(report: Report, free: int | None) -> list[Text]:
    """Show a plan: what it is for, each class with its rule, what is written where, and what is not.

    Args:
        report: the plan in numbers.
        free: bytes free in the target's file system; None where no target was named.
    """
    sections = (
        ("classes", _classes(report)),
        ("files", _folders(report)),
        ("not written", _dropped(report)),
    )
    lines = _title(report, free)
    for title, body in sections:
        if body:
            lines += [Text(), Text(title, "bold"), *body]
    return lines


def _title(report: Report, free: int | None) -> list[Text]:
    facts = report.facts
    sizes = ", ".join(f"{name} {facts[name]}" for name in ("tp", "dp", "ep", "pp"))
    head = f"{facts['layout']} by scheme {clean(str(facts['scheme']))}: {sizes}; files of ranks {report.ranks}"
    room = "" if free is None else f", {bytes_text(free)} free"
    links = f" ({bytes_text(report.written)} with every link counted)" if report.links else ""
    rows = [
        ("plan", report.plan),
        ("reads", f"{bytes_text(report.read)} in {plural(report.tensors, 'tensor')}, {plural(report.shards, 'shard')}"),
        ("writes", f"{bytes_text(report.stored)} in {plural(report.files, 'file')}{links}{room}"),
    ]
    if report.node is not None:
        rows.append(("per node", f"{bytes_text(report.node)}, where each node makes its own part (--node-rank)"))
    rows.append(("beside", _names(report.copied)))
    return [Text(head, "bold"), *grid(rows, indent=2)]


def _classes(report: Report) -> list[Text]:
    titles = ("CLASS", "RULE", "TENSORS", "READ", "PARAMETERS", "PER RANK")
    rows = [
        (clean(row.name), row.rule, str(row.tensors), bytes_text(row.read), str(row.parameters), bytes_text(row.rank))
        for row in report.classes
    ]
    total = sum(row.rank for row in report.classes)
    rows.append(("all", "", "", "", str(sum(row.parameters for row in report.classes)), bytes_text(total)))
    return _table(titles, rows)


def _folders(report: Report) -> list[Text]:
    titles = ("FOLDER", "FILES", "LINKS", "STORED")
    rows = [(row.folder or ".", str(row.files), str(row.links), bytes_text(row.stored)) for row in report.folders]
    return _table(titles, rows)


def _dropped(report: Report) -> list[Text]:
    lines = [
        Text(f"  {plural(row.tensors, 'tensor')}, {bytes_text(row.size)}: {clean(row.reason)} ({clean(row.first)})")
        for row in report.dropped
    ]
    if report.left:
        lines.append(Text(f"  files that no runtime needs: {_names(report.left)}"))
    return lines


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(clean, names[:_NAMED])) + more


def _table(titles: Iterable[str], rows: Iterable[Sequence[str]]) -> list[Text]:
    return grid([[Text(title, "dim") for title in titles], *rows], indent=2)
