"""Work that may hang, in threads of its own, and waits that have an end."""

from __future__ import annotations

import threading
import time

from .errors import OpError, Outcome

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .errors import Json


class Later:
    """Work in a thread of its own, for which nobody waits longer than it deserves (a dead NFS server, a device)."""

    def __init__(self, work: Callable[[], Any]) -> None:
        """Start the work at once."""
        self._work = work
        self._outcome = Outcome()
        self._result: Any = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._outcome:
            self._result = self._work()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> Any:
        """Give the result; raises what the work raised, or ``no-answer`` when it takes longer."""
        self._thread.join(seconds)
        if not self.done:
            raise OpError("no-answer", f"no answer within {seconds:.0f} s")
        if self._outcome.fault is not None:
            raise self._outcome.fault
        return self._result


class Crew:
    """Small pieces of work, done one after another by one thread.

    While nothing gets done (a dead NFS server), twice as many threads go on with the rest, so that what hangs holds
    nothing else up, and what does not hang costs no thread of its own.
    """

    STUCK = 0.05

    def __init__(self, works: dict[Any, Callable[[], Json]], seconds: float) -> None:
        """Take the pieces by any key, and how long they may take together."""
        self._left = list(works.items())[::-1]
        self._count = len(works)
        self._seconds = seconds
        self._ended = threading.Event()
        self._outcomes: dict[Any, tuple[Outcome, Json]] = {}

    def run(self) -> None:
        """Work until all is done or the time is over."""
        deadline = time.monotonic() + self._seconds
        hands, done = 1, -1
        while len(self._outcomes) < self._count and time.monotonic() < deadline:
            if len(self._outcomes) == done or done < 0:
                for _ in range(min(hands, len(self._left))):
                    threading.Thread(target=self._work, daemon=True).start()
                hands *= 2
            done = len(self._outcomes)
            self._ended.wait(min(self.STUCK, max(0.0, deadline - time.monotonic())))

    def answer(self, key: Any, otherwise: Json) -> Json:
        """Give what a piece found; where it failed or hangs, what it would say then, and ``error``."""
        outcome, found = self._outcomes.get(key, (None, otherwise))
        if outcome is None:
            return {**otherwise, "error": f"no answer within {self._seconds:.0f} s"}
        return found if outcome.fault is None else {**otherwise, "error": str(outcome.fault)}

    def _work(self) -> None:
        while self._left:
            try:
                key, work = self._left.pop()
            except IndexError:  # another one took the last
                return
            outcome = Outcome()
            found: Json = {}
            with outcome:
                found = work()
            self._outcomes[key] = (outcome, found)
            if len(self._outcomes) == self._count:
                self._ended.set()


def wait_until(met: Callable[[], bool], seconds: float, cancelled: threading.Event | None = None) -> bool:
    """Look ten times a second until it is so; False when it was not within the time."""
    deadline = time.monotonic() + seconds
    pause = threading.Event() if cancelled is None else cancelled
    while not met():
        if time.monotonic() >= deadline or pause.wait(0.1):
            return met()
    return True
