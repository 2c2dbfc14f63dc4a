"""The operation ``last_run``: both ends of the last run of a log, until it was told to end; its record may be gone."""

from __future__ import annotations

from .files import MIB, TEXT_LIMIT
from .logparts import last_run, log_of
from .logs import clean, lines_of, read_range

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path

    from .call import Call
    from .errors import Json

NUMBERED = 64 * MIB
"""Where a run begins later than that in its file, its lines have no numbers: counting them would take too long."""


def op_last_run(call: Call) -> Json:
    """Give the begin of the last run of each log, or its end (``which``), and what is known of how it ended."""
    folder, which = call.folder, call["which"]
    records = {record["id"]: record for record in folder.records()}
    logs = {}
    for process in call["processes"]:
        record = records.get(process["id"])
        path = log_of(folder, process, record)
        try:
            logs[process["id"]] = part_of(path, last_run(path, record), which)
        except OSError:
            continue
    return {"logs": logs}


def part_of(path: Path, run: Json, which: str) -> Json:
    """Read one end of a run.

    ``first`` is the number of the first line in the file, 0 where it is not known; ``size`` that of the run in bytes.

    Raises:
        OSError: the log is not there, or may not be read.
    """
    size = path.stat().st_size
    begin = run["offset"] if run["offset"] <= size else 0
    asked = run.get("end")
    end = size if asked is None or not begin <= asked <= size else asked
    start = max(begin, end - TEXT_LIMIT) if which == "end" else begin
    data, _ = read_range(path, start, min(TEXT_LIMIT, end - start))
    lines = [clean(line) for line in lines_of(data)]
    lines = lines[:-1] if lines[-1:] == [""] else lines
    return {
        "path": str(path),
        "lines": lines if start == begin else lines[1:],  # the first one has begun before
        "first": number_at(path, start) if start == begin else 0,
        "size": end - begin,
        "exit": run.get("exit"),
        "asked": run.get("asked"),
    }


def number_at(path: Path, offset: int) -> int:
    """Count up to the line at an offset, from 1 on; 0 where that is too far."""
    if offset > NUMBERED:
        return 0
    number, position = 1, 0
    while position < offset:
        data, _ = read_range(path, position, min(MIB, offset - position))
        if not data:
            break
        number += data.count(b"\n")
        position += len(data)
    return number
