"""Who did what, as a table."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.text import Text

from sgdeploy.console.text import clean, grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sgdeploy.deploy.history import Entry


def past_lines(entries: Sequence[Entry]) -> list[Text]:
    """Show actions, oldest first, by the clock and in the zone of whoever looks."""
    if not entries:
        return []
    head = [Text(title, "dim") for title in ("TIME", "WHO", "WHAT")]
    return grid([head, *([_when(entry.when), Text(clean(entry.who)), _what(entry)] for entry in entries)])


def _when(text: str) -> Text:
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return Text(clean(text))
    return Text(moment.astimezone().isoformat(" "))


def _what(entry: Entry) -> Text:
    return Text(clean(entry.what), "green" if entry.ready else "")
