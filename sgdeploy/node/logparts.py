"""Which part of a log is of which run: logs are appended to, and outlive the records that say where a run began."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from .errors import OpError
from .files import read_intact, write_json
from .folder import exit_json, plain
from .shapes import RUN, rows_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .errors import Json
    from .folder import Folder

RUNS = "runs.json"
"""Beside the logs: for each of them where its runs began, ``{log: [{"offset": 0, "wall": seconds}, …]}``.

A run that ended by itself and not well has its ``exit`` (``{"code": 3}``). One that was told to end has ``asked``, when
that was, and ``end``, the size of its log then: what it wrote after that is about its end.
"""
KEPT = 10
"""Runs of a log that are remembered."""


def note_runs(folder: Folder, records: Iterable[Json], asked: Collection[str] = ()) -> None:
    """Remember where the runs of these records began, before the records go; a full disk forgets it.

    How a process ended is remembered too, unless it was well or nobody knows whether we made it: ``asked`` has the ids
    that are about to be told to end. Only what had ended by then has ended by itself.
    """
    file = folder.path / "logs" / RUNS
    runs = read_runs(file)
    known = {log: listed for log, listed in runs.items() if (file.parent / log).exists()}
    for record in records:
        log = Path(record["log"])
        if log.exists():
            listed = known.get(log.name, [])
            others = [row for row in listed if not _is_run_of(record, row)]
            same: Json = next((row for row in listed if _is_run_of(record, row)), {})
            known[log.name] = [*others, _run(folder, record, same, asked=record["id"] in asked)][-KEPT:]
    if known != runs:
        with contextlib.suppress(OpError):
            write_json(file, known, sync=False)


def read_runs(file: Path) -> dict[str, list[Json]]:
    """Read where the runs of each log began, as far as it is intact."""
    return {log: rows_of(rows, RUN) for log, rows in (read_intact(file) or {}).items()}


def _is_run_of(record: Json, row: Json) -> bool:
    return bool((row["offset"], row["wall"]) == (record["offset"], record.get("wall")))


def _run(folder: Folder, record: Json, row: Json, *, asked: bool) -> Json:
    told = {"offset": record["offset"], "wall": record.get("wall"), **row}
    if "asked" in told or "exit" in told:
        return told
    ended = exit_json(folder.ended(record))
    if ended is None:
        return {**told, "asked": time.time(), "end": _size(Path(record["log"]))} if asked else told
    return told if ended == {"code": 0} else {**told, "exit": ended}


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def last_run(path: Path, record: Json | None) -> Json:
    """Give what is remembered of the last run of a log, which is that of its record if there is one."""
    runs = read_runs(path.parent / RUNS).get(path.name, [])
    if record is None:
        return runs[-1] if runs else {"offset": 0, "wall": None}
    own = {"offset": record["offset"], "wall": record.get("wall")}
    return next((row for row in runs if _is_run_of(record, row)), own)


def log_of(folder: Folder, process: Json, record: Json | None) -> Path:
    """Give where the log of a process stands, as recorded or else as planned."""
    return folder.path / "logs" / plain(process["log"], "log") if record is None else Path(record["log"])


class Part:
    """Part of a log: from an offset on, to an offset or the end, and when its run began."""

    def __init__(self, path: Path, begin: int, end: int | None, wall: float | None) -> None:
        """Keep all of it."""
        self.path = path
        self.begin = begin
        self.end = end
        self.wall = wall


def find_part(folder: Folder, process: Json, record: Json | None, which: str) -> Part:
    """Find the part of the log of a process that is of its last run, of the one before (``previous``), or ``all``.

    Raises:
        OpError: ``no-such-run``.
    """
    path = log_of(folder, process, record)
    if which == "all":
        return Part(path, 0, None, None)
    runs = read_runs(path.parent / RUNS).get(path.name, [])
    if record is not None:
        own = {"offset": record["offset"], "wall": record.get("wall")}
        runs = [*(run for run in runs if not _is_run_of(record, run)), own]
    if which == "run":
        return Part(path, runs[-1]["offset"], None, runs[-1]["wall"]) if runs else Part(path, 0, None, None)
    if len(runs) == len(runs[-1:]):
        raise OpError("no-such-run", "no earlier run is on record")
    return Part(path, runs[-2]["offset"], runs[-1]["offset"], runs[-2]["wall"])
