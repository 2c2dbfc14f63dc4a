"""The live table: one row per rank while they fit, else one row per host and the ranks that hold the rest up."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Group
from rich.live import Live
from rich.text import Text

from sgdeploy.console.board import STATES, Board, Rank
from sgdeploy.console.table import Column, table
from sgdeploy.console.text import clean, duration, grid, untimed
from sgdeploy.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console as Terminal

    from sgdeploy.deploy.events import Event, State
    from sgdeploy.plan.model import Plan

RANK_ROWS = 40
"""Up to so many ranks there is a row for each."""

_FRAME = 4  # title, column heads, waiting line, and the line of the cursor
_LAGGARDS = 5
_ECHO = len("^C^C") + 1
_RANK = (
    Column("HOST"),
    Column("RANK"),
    Column("STATE"),
    Column("PHASE", least=14),
    Column("TIME", spare=2),
    Column("LAST LOG LINE", least=16, spare=3),
)
STYLES = {
    "planned": "dim",
    "starting": "cyan",
    "loading": "cyan",
    "warming": "magenta",
    "ready": "green",
    "failed": "bold red",
    "lost": "bold red",
    "stopped": "dim",
}


def board_lines(board: Board, now: float, *, width: int | None, height: int | None) -> list[Text]:
    """Draw the board.

    Args:
        board: what is known.
        now: the console's clock.
        width: cells of the terminal, None for no limit.
        height: lines of the terminal, None for no limit (the table that stays at the end).
    """
    room = None if height is None else max(height - _FRAME, 1)
    lines = [_headline(board)]
    if board.ranks and len(board.ranks) <= RANK_ROWS and (room is None or len(board.ranks) <= room):
        lines += _rank_table(board.ranks.values(), now, width)
    else:
        lines += _host_view(board, now, width, room)
    if board.waiting:
        lines.append(Text(f"waiting for {clean(board.waiting)}", "dim"))
    if width is not None:
        for line in lines:
            line.truncate(width, overflow="ellipsis")
    return lines


def counted(counts: Iterable[tuple[str, int]]) -> Text:
    """Write counts by state: ``12 ready · 4 loading``."""
    return Text(" · ").join(Text(f"{count} {state}", STYLES.get(state, "")) for state, count in counts)


def _headline(board: Board) -> Text:
    counts = counted(reversed(board.counts().items()))
    return Text.assemble((clean(board.title), "bold"), "  " if board.title and counts else "", counts)


def _rank_table(ranks: Iterable[Rank], now: float, width: int | None) -> list[Text]:
    return table(_RANK, (_rank_row(rank, now) for rank in ranks), width=width)


def _rank_row(rank: Rank, now: float) -> list[Text]:
    return [
        Text(clean(rank.host)),
        Text(clean(rank.label)),
        Text(rank.state, STYLES[rank.state]),
        Text(clean(rank.phase)),
        Text("" if rank.state == "planned" else duration(rank.age(now))),
        Text(clean(untimed(rank.line)), "dim"),
    ]


def _host_view(board: Board, now: float, width: int | None, room: int | None) -> list[Text]:
    """Give hosts first, then the ranks that are failed or behind; what does not fit is counted."""
    columns = [state for state in STATES if state in board.counts()]
    hosts = list(board.hosts)
    laggards = board.laggards(_LAGGARDS)
    if room is not None:
        laggards = laggards[: max(room // 3, 1)]
        most = max(room - len(laggards) - 2, 1)
        hosts = sorted(hosts, key=board.wellness)[:most] if len(hosts) > most else hosts
    head = [Text(title, "dim") for title in ("HOST", *map(str.upper, columns), "HOST STATE" if columns else "STATE")]
    lines = grid([head, *([Text(clean(host)), *_cells(board, host, columns)] for host in hosts)], width=width)
    if len(hosts) < len(board.hosts):
        lines.append(Text(f"… and {plural(len(board.hosts) - len(hosts), 'more host')}", "dim"))
    return lines + (_rank_table(laggards, now, width) if laggards else [])


def _cells(board: Board, host: str, columns: Iterable[State]) -> list[Text]:
    counts = board.counts(host)
    return [*(_number(counts.get(state, 0), state) for state in columns), Text(clean(board.hosts[host]), "dim")]


def _number(count: int, state: str) -> Text:
    return Text(str(count), STYLES[state]) if count else Text("-", "dim")


class Picture(Protocol):
    """What a live view shows: it hears events and can be drawn at any moment."""

    def hear(self, event: Event, now: float) -> None:
        """Take one event in."""

    def lines(self, now: float, *, width: int | None, height: int | None) -> list[Text]:
        """Draw it; None is no limit."""


class RankPicture:
    """The ranks of a plan, or its hosts."""

    def __init__(self, plan: Plan, *, ranks: bool) -> None:
        """Give a row to every host of the plan, or to every process."""
        self._board = Board()
        self._board.expect(plan, ranks=ranks)

    def hear(self, event: Event, now: float) -> None:
        """Take one event in."""
        self._board.hear(event, now)

    def lines(self, now: float, *, width: int | None, height: int | None) -> list[Text]:
        """Draw it."""
        return board_lines(self._board, now, width=width, height=height)


class LiveBoard:
    """A picture on a terminal, redrawn four times a second until ``close``; then its last state stays."""

    def __init__(self, terminal: Terminal, clock: Callable[[], float]) -> None:
        """Prepare; nothing is drawn before ``open``."""
        self._terminal = terminal
        self._clock = clock
        self._picture: Picture | None = None
        self._lock = threading.Lock()  # rich redraws from a thread of its own
        self._live: Live | None = None

    @property
    def is_open(self) -> bool:
        """Whether the table stands on the terminal now."""
        return self._live is not None

    def open(self, picture: Picture) -> None:
        """Begin to draw."""
        with self._lock:
            self._picture = picture
        if self._live is None:
            self._live = Live(
                console=self._terminal,
                get_renderable=self._draw,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                refresh_per_second=4,
            )
            self._live.start()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Give the terminal away for the body of the ``with``, for a question; what is heard meanwhile is kept."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            with self._lock:
                picture = self._picture
            if live is not None and picture is not None:
                self.open(picture)

    def hear(self, event: Event) -> None:
        """Take one event in; it shows at the next redraw."""
        with self._lock:
            if self._picture is not None:
                self._picture.hear(event, self._clock())

    def close(self) -> None:
        """Give the terminal back: cursor on, and the whole table as its last state. Calling it twice is fine."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
            for line in self._lines(height=None):
                self._terminal.print(line, soft_wrap=True)

    def _draw(self) -> Group:
        lines = self._lines(height=self._terminal.height)
        # A key is echoed behind the last line; were that full, the echo would wrap and the table be drawn too low.
        for line in lines[-1:]:
            line.truncate(max(self._terminal.width - _ECHO, 1), overflow="ellipsis")
        return Group(*lines)

    def _lines(self, *, height: int | None) -> list[Text]:
        with self._lock:
            if self._picture is None:
                return []
            return self._picture.lines(self._clock(), width=self._terminal.width, height=height)
