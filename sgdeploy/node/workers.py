"""The worker processes of one main process: remembered once they are seen, and missed when they end before it does.

A main process may outlive the scheduler that does its work, and go on to say over HTTP that all is well.
"""

from __future__ import annotations

from .processes import lives, title

TYPE_CHECKING = False

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from .errors import Json
    from .processes import Stat


class Workers:
    """The workers of one process, told by their titles.

    Titles are all that parts them from the engine's helpers, which come and go. One decides over a message only, never
    over a signal.
    """

    CONFIRM = 1.0
    """Seconds that a main process gets to end as well before it counts as one that has lost a worker."""

    def __init__(self, pattern: re.Pattern[str] | None, known: Iterable[Json]) -> None:
        """Look for such titles (None: for none); ``known`` were seen by an earlier watch."""
        self._pattern = pattern
        self._known = {(row["pid"], row["start"]): str(row["title"]) for row in known}
        self._gone: dict[tuple[int, int], float] = {}

    def see(self, members: Iterable[Stat]) -> bool:
        """Take in who lives below the main process; tell whether any worker is new."""
        if self._pattern is None:
            return False
        before = len(self._known)
        for member in members:
            who = (member.pid, member.start)
            if who not in self._known and self._pattern.search(title(member.pid)):
                self._known[who] = title(member.pid)
        return len(self._known) > before

    def rows(self) -> list[Json]:
        """Give all that are known, to be kept."""
        return [{"pid": pid, "start": start, "title": name} for (pid, start), name in self._known.items()]

    def look(self, now: float, main_lives: Callable[[], bool]) -> None:
        """See who has ended before the main process did."""
        gone = [who for who in self._known if who not in self._gone and not lives(*who)]
        if gone and main_lives():
            self._gone.update(dict.fromkeys(gone, now))

    def lost(self, now: float, *, alive: bool) -> Json | None:
        """Give the first worker that ended before its main process, and since when; None where there is none.

        Args:
            now: the moment, in the clock of ``look``.
            alive: whether the main process lives; then it gets some time to end as well.
        """
        if not self._gone:
            return None
        (pid, start), since = min(self._gone.items(), key=lambda item: item[1])
        if alive and now - since < self.CONFIRM:
            return None
        return {"pid": pid, "title": self._known[pid, start], "ago": round(now - since, 1)}
