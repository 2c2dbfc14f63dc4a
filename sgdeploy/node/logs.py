"""Lines of logs fit to be shown, and the operation ``logs``."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .files import CHUNK, TEXT_LIMIT
from .keys import hide

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .call import Call
    from .errors import Json


ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_])")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
LINE_SHOWN, TAIL_LINE, TAIL_LINES = 200, 2000, 20


def clean(line: bytes, limit: int = CHUNK) -> str:
    """Make a line of a log fit to be shown: no colours, control characters or keys, invalid UTF-8 replaced."""
    text = line[: 4 * limit].decode("utf-8", "replace")
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    return hide(UNPRINTABLE.sub("", text)).rstrip()[:limit]


def lines_of(data: bytes) -> list[bytes]:
    """Split into lines; of a line that was rewritten by carriage returns only the last state counts."""
    return [line.rstrip(b"\r").rpartition(b"\r")[2] for line in data.split(b"\n")]


def read_range(path: Path, begin: int, limit: int) -> tuple[bytes, int]:
    """Read part of a file; gives the bytes and the size of the file."""
    with path.open("rb", buffering=0) as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(min(begin, size))
        data = b""
        while len(data) < limit:
            part = stream.read(min(CHUNK, limit - len(data)))
            if not part:
                break
            data += part
        return data, size


def read_tail(path: Path, offset: int, count: int, limit: int = CHUNK) -> list[str]:
    """Give the last lines written after an offset; the start of a line that is too long is left out."""
    try:
        size = path.stat().st_size
        begin = max(offset if offset <= size else 0, size - limit)
        data, _ = read_range(path, begin, limit)
    except OSError:
        return []
    shown = [clean(line, TAIL_LINE) for line in lines_of(data)]
    return [line for line in shown if line][-count:]


def op_logs(call: Call) -> Json:
    """Give the end of logs, or what was added since an offset."""
    folder = call.folder
    offsets = call.get("since_offset")
    logs = {}
    for record in folder.select(call.get("ids")):
        ident = record["id"]
        path = Path(record["log"])
        since = offsets.get(ident) if isinstance(offsets, dict) else offsets
        try:
            if since is None:
                size = path.stat().st_size
                lines = read_tail(path, record["offset"], call.get("tail", TAIL_LINES), TEXT_LIMIT)
            else:
                data, _ = read_range(path, since, TEXT_LIMIT)
                size = since + len(data)
                lines = [clean(line) for line in lines_of(data)]
                lines = lines[:-1] if lines[-1:] == [""] else lines
        except OSError:
            lines, size = [], 0
        logs[ident] = {"path": str(path), "lines": lines, "size": size}
    return {"logs": logs}
