"""The use case behind ``dump-manifest``: an installed engine is started far enough to say what it builds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgdeploy.errors import ProcessFault, StartupError
from sgdeploy.paths import package_file

_TAIL = 20
"""Lines of the engine's log that are shown where it fails."""

_POLL = 0.2
"""Seconds between two looks for the mark."""

_DONE = "done"
"""Name of the mark, see sgdeploy/weights/dump.py."""

_WITHOUT_WEIGHTS = ("--load-format", "dummy")


@dataclass(frozen=True)
class DumpWish:
    """What to start.

    Attributes:
        python: interpreter of the environment that the engine is installed in.
        flags: of the engine, as its launch command takes them.
        draft: whether the draft model is meant instead of the main one.
        timeout: seconds until it is given up.
        environ: variables of the engine.
    """

    python: str
    flags: tuple[str, ...]
    draft: bool
    timeout: float
    environ: Mapping[str, str]


async def dump(wish: DumpWish) -> dict[str, Any]:
    """Start the engine, and end it as soon as every rank has said what it builds.

    Returns:
        A manifest: class, ranks, parameters by rank; equal ranks are listed once.

    Raises:
        StartupError: it ended, or the time ran out, before any rank had said anything.
    """
    with tempfile.TemporaryDirectory(prefix="sgdeploy-dump-") as name:
        folder = Path(name)
        reason, log = await _run(wish, folder)
        found = _said(folder)
    if not found:
        tail = tuple(log.decode(errors="replace").splitlines()[-_TAIL:])
        fault = ProcessFault(wish.python, "this machine", reason, tail)
        hint = "start the engine by hand with these flags first; --python names the environment that it is installed in"
        raise StartupError("the engine did not come as far as building its model", [fault], hint=hint)
    return manifest(found)


def _said(folder: Path) -> dict[str, Any]:
    """Read what ranks said; nothing counts before all have."""
    if not (folder / _DONE).exists():
        return {}
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("pp*.json")}


def manifest(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Join what ranks said, ``pp0-tp1`` → class and parameters."""
    ranks = sorted(found, key=_order)
    first = found[ranks[0]]
    alike = all(found[rank]["params"] == first["params"] for rank in ranks)
    listed = ranks[:1] if alike else ranks
    return {
        "class": first["class"],
        "ranks": ranks,
        "identical_on_all_ranks": alike,
        "params": {rank: found[rank]["params"] for rank in listed},
    }


def _order(rank: str) -> list[int]:
    return [int(part[2:]) for part in rank.split("-")]


async def _run(wish: DumpWish, folder: Path) -> tuple[str, bytes]:
    """Run the engine to its end; gives how it ended and what it wrote."""
    # An engine that is killed leaves its sockets where temporary files are: here, they go with the folder.
    own = {"SGDEPLOY_DUMP": str(folder), "TMPDIR": str(folder)}
    environ = {**wish.environ, **own, **({"SGDEPLOY_DUMP_DRAFT": "1"} if wish.draft else {})}
    words = [wish.python, str(package_file("weights/dump.py")), *_without_weights(wish.flags)]
    log = folder / "log"
    try:
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file, env=environ, start_new_session=True
            )
    except OSError as error:
        return f"cannot be started: {error.strerror}", b""
    try:
        reason = await _ended(process, folder / _DONE, wish.timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):  # whoever of its session is left
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return reason, log.read_bytes()


async def _ended(process: asyncio.subprocess.Process, mark: Path, patience: float) -> str:
    """Wait until the engine has ended or every rank has spoken; an engine whose workers end may wait for ever."""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    while process.returncode is None and not await asyncio.to_thread(mark.exists):
        if loop.time() > until:
            return f"no manifest within {patience:.0f} s"
        await asyncio.sleep(_POLL)
    code = process.returncode
    if code is None:
        return "ended by us"
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def _without_weights(flags: Sequence[str]) -> list[str]:
    """Keep a loader of weights from looking for any."""
    given = any(flag.partition("=")[0] == _WITHOUT_WEIGHTS[0] for flag in flags)
    return [*flags, *(() if given else _WITHOUT_WEIGHTS)]
