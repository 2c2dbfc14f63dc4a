"""Finding programs and running them for a bounded time."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

from .files import CHUNK, TEXT_LIMIT
from .processes import clean_environment

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable

    from .errors import Json


def find_program(name: str, path: str, *more: str) -> str | None:
    """Find a program in the folders of a PATH, or else in some more; None where there is none."""
    for folder in [*path.split(":"), *more]:
        program = f"{folder}/{name}"
        if folder and os.access(program, os.X_OK) and not Path(program).is_dir():
            return program
    return None


def run_command(argv: list[str], seconds: float, environment: dict[str, str] | None = None) -> Json:
    """Run a program for at most so long and keep at most 1 MiB of each output: ``rc``, ``out``, ``err``."""
    import subprocess

    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**clean_environment(), "LC_ALL": "C", **(environment or {})},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return {"rc": 127, "out": "", "err": "{}: {}".format(argv[0] if argv else "", error)}
    deadline = time.monotonic() + seconds
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    texts, open_still = collect([s.fileno() for s in streams], deadline, lambda: process.poll() is not None)
    late = False
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        late = True
    if late or open_still:  # Whoever holds the pipes open is of its group, so the number is still its own.
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    for stream in streams:
        stream.close()
    out, err = (bytes(text).decode("utf-8", "replace") for text in texts)
    if late:
        return {"rc": 124, "out": out, "err": err + f"\nno end within {seconds:.0f} s", "timed_out": True}
    return {"rc": process.returncode, "out": out, "err": err}


def collect(descriptors: list[int], deadline: float, ended: Callable[[], bool]) -> tuple[list[bytearray], bool]:
    """Read from pipes until they end, or the process has ended and nothing more comes, or it is too late.

    Gives what was read, and whether a pipe is still open at its other end.
    """
    texts = {descriptor: bytearray() for descriptor in descriptors}
    left = set(descriptors)
    while left and time.monotonic() < deadline:
        ready = select.select(list(left), [], [], 0.1)[0]
        for descriptor in ready:
            data = os.read(descriptor, CHUNK)
            if not data:
                left.discard(descriptor)
            texts[descriptor] += data[: max(0, TEXT_LIMIT - len(texts[descriptor]))]
        if not ready and ended():
            break
    return list(texts.values()), bool(left)
