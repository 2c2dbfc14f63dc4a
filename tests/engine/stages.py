"""Stages of the slow tests: each has a limit, and how long it took is told at the end of the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Stage:
    """A stage that runs.

    Attributes:
        name: what is done.
        limit: seconds it may take.
    """

    name: str
    limit: float
    _began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until its limit, for waits inside it; never less than a tenth, so that each wait looks once."""
        return max(0.1, self.limit - self.seconds)


@dataclass
class Stages:
    """All stages of a run.

    Attributes:
        rows: what is told of them at the end, one line each.
    """

    rows: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str, limit: float) -> Iterator[Stage]:
        """Run the body as a stage, and fail where it took longer than its limit."""
        stage = Stage(name, limit)
        ended = "failed"
        try:
            yield stage
            ended = "" if stage.seconds <= limit else "too slow"
        finally:
            self.rows.append(f"{stage.seconds:6.1f} s of {limit:3.0f}  {name}  {ended}".rstrip())
        assert not ended, f"{name}: took {stage.seconds:.1f} s, its limit is {limit:g} s"
