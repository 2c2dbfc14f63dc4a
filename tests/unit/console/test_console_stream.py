"""A reader that goes away does not stop the work; a full disk is told once."""

from __future__ import annotations

import errno
import io
import os

import pytest

from sgdeploy.console.console import Console
from sgdeploy.console.data import Mode
from sgdeploy.deploy.events import Step
from sgdeploy.errors import SgdeployError
from tests.unit.console.samples import plan


class Broken(io.StringIO):
    """A stream whose every write fails."""

    def __init__(self, number: int) -> None:
        """Fail with this errno."""
        super().__init__()
        self.number = number
        self.tries = 0

    def write(self, text: str) -> int:
        """Count the try and fail."""
        del text
        self.tries += 1
        raise OSError(self.number, os.strerror(self.number))


def test_a_reader_that_has_gone_is_forgiven() -> None:
    gone = Broken(errno.EPIPE)
    console = Console("plain", out=gone, err=gone)
    console.tell(Step(1, 2, "connect"))
    console.tell(Step(2, 2, "look"))
    console.plan(plan())
    assert gone.tries == 2  # one for each of stdout and stderr, then silence


def work(console: Console, done: list[str], end: Exception | None = None) -> None:
    """Do something that is told in two events."""
    with console.watching(plan()):
        console.tell(Step(1, 2, "connect"))
        console.tell(Step(2, 2, "look"))
        done.append("all")
        if end is not None:
            raise end


@pytest.mark.parametrize("mode", ["plain", "json"])
def test_a_full_disk_does_not_stop_the_work_and_is_told_after_it(mode: Mode) -> None:
    full, done = Broken(errno.ENOSPC), list[str]()
    with pytest.raises(SgdeployError, match="cannot be written"):
        work(Console(mode, out=full, err=full), done)
    assert (done, full.tries) == (["all"], 1)


def test_a_full_disk_hides_no_failure_of_the_work() -> None:
    full = Broken(errno.ENOSPC)
    with pytest.raises(ZeroDivisionError):
        work(Console("plain", out=full, err=full), [], ZeroDivisionError())


def test_a_full_disk_is_told_once() -> None:
    full = Broken(errno.ENOSPC)
    console = Console("plain", out=full, err=io.StringIO())
    with pytest.raises(SgdeployError, match="cannot be written: No space left on device"):
        console.plan(plan())
    console.plan(plan())
    assert full.tries == 1
