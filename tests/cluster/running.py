"""A command that runs while its hosts fail: its events as it tells them, and what it said in the end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from tests.kit.hosts import Lab

Event = dict[str, Any]


@dataclass
class Running:
    """A command under way.

    Attributes:
        process: its process.
        told: events read so far.
    """

    process: subprocess.Popen[str]
    _errors: IO[str] = field(repr=False)
    told: list[Event] = field(default_factory=list)

    def events(self) -> Iterator[Event]:
        """Yield what it tells, as it tells it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(json.loads(line))
            yield self.told[-1]

    def until(self, true: Callable[[Event], bool], what: str) -> Event:
        """Read on until an event of some kind, and give it.

        Raises:
            AssertionError: the command ended without it.
        """
        for event in self.events():
            if true(event):
                return event
        code, said = self.end()
        raise AssertionError(f"no event: {what}; it ended with {code}: {said}")

    def step(self, number: int) -> None:
        """Read on until a numbered step begins."""
        self.until(lambda event: event["event"] == "step" and event["number"] == number, f"step {number}")

    def ready(self, process: str) -> None:
        """Read on until a process is ready."""
        self.until(lambda e: e["event"] == "rank" and (e["process"], e["state"]) == (process, "ready"), process)

    def failed(self) -> Event:
        """Read on until the first process that failed is told."""
        return self.until(lambda event: event["event"] == "failed", "a failed process")

    def lost(self, host: str) -> Event:
        """Read on until a host is told to be lost."""
        return self.until(lambda e: e["event"] == "host" and (e["host"], e["state"]) == (host, "lost"), f"{host} lost")

    def end(self, limit: float = 90.0) -> tuple[int, str]:
        """Hear it out; give its exit code, and what it said for people."""
        for _ in self.events():
            pass
        code = self.process.wait(limit)
        self._errors.seek(0)
        return code, self._errors.read()


@contextlib.contextmanager
def running(lab: Lab, *words: str, **options: Any) -> Iterator[Running]:
    """Run ``sgdeploy WORDS --json`` on the lab's client while the body makes hosts fail."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        lab.popen(*words, "--json", stderr=errors, **options) as process,
    ):
        try:
            yield Running(process, errors)
        finally:
            process.kill()


class Stopwatch:
    """Seconds since a fault was made."""

    def __init__(self) -> None:
        """Start."""
        self._begin = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._begin
