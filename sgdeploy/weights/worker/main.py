"""The worker on a node: ``python3 -I -S split.pyz headers MODEL`` or ``… split JOB``, in the folder for its answers.

Progress goes to stdout, one short JSON object a line. What a split came to stands in ``result.json``.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import headers
from .job import PARTIAL, Job, Progress, RefusedError
from .run import run

RESULT = "result.json"
DONE, REFUSED, STOPPED = 0, 3, 130
"""Exit codes; what Python itself ends with (1) is a fault of ours."""

_INTERVAL = 1.0


def main(words: Sequence[str]) -> int:
    """Do what the words say; gives the exit code."""
    mode, argument = words
    if mode == "headers":
        parts = headers.write(headers.read(Path(argument)), Path())
        _say({"parts": parts})
        return DONE
    return _split(Job.from_json(json.loads(Path(argument).read_text(encoding="utf-8"))))


def _split(job: Job) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    told = [0.0]

    def tell(progress: Progress) -> None:
        now = time.monotonic()
        if now - told[0] >= _INTERVAL or progress.files == progress.of_files:
            told[0] = now
            _say(progress.to_json())

    try:
        done = run(job, tell, stop.is_set)
    except RefusedError as refusal:
        _write({"refused": {"code": refusal.code, "details": refusal.details}})
        return REFUSED
    _write({"done": done.to_json()})
    return DONE if done.complete else STOPPED


def _say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _write(value: Any) -> None:
    partial = Path(RESULT + PARTIAL)
    partial.write_text(json.dumps(value), encoding="utf-8")
    partial.rename(RESULT)
