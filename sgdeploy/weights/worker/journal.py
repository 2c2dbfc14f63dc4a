"""What is done already: a line per finished file, kept until the manifest takes its place.

A file counts as done if a line names it, its size is right, nobody has touched it since (same modification time), and
the files of the checkpoint are still those that it was made from (``sources.stamp``).
The journal is appended to after the file has its final name, so a killed run has at worst a file without a line.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .lock import remove

JOURNAL = ".sgdeploy-split.journal"

Entry = Mapping[str, Any]
"""A finished file: ``size``, ``sha256`` (None where hashing was off), and ``source``, the stamp of the checkpoint."""


class Journal:
    """The journal of one target, open for writing."""

    def __init__(self, out: Path, plan: str, facts: Mapping[str, Any], source: str) -> None:
        """Open it; what is read must be of the same plan (``begun`` tells). ``source`` is the checkpoint's stamp."""
        self._out = out
        self.source = source
        self._path = out / JOURNAL
        self._lock = threading.Lock()
        lines = _lines(self._path)
        self._files = {line["file"]: line for line in lines[1:]}
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if os.fstat(self._descriptor).st_size:
            os.write(self._descriptor, b"\n")  # the last line may have been cut off
        if not lines:
            self._write({"plan": plan, "facts": dict(facts)})

    def close(self) -> None:
        """Close it; the file stays."""
        os.close(self._descriptor)

    def stale(self, path: str) -> bool:
        """Tell whether a file is noted that was made from other files of the checkpoint than are there now."""
        return bool(self._files.get(path, {}).get("source", self.source) != self.source)

    def done(self, path: str, size: int, hashed: bool) -> Entry | None:
        """Give what is known of a file if it is there, whole and untouched; None where it must be written."""
        return None if self.stale(path) else self._there(path, size, hashed)

    def _there(self, path: str, size: int, hashed: bool) -> Entry | None:
        line = self._files.get(path)
        if line is None or (hashed and line["sha256"] is None):
            return None
        try:
            found = (self._out / path).stat()
        except OSError:
            return None
        if (found.st_size, found.st_mtime_ns) != (size, line["mtime"]):
            return None
        return _entry(line)

    def record(self, path: str, size: int, sha256: str | None) -> Entry:
        """Note a file that has its final name."""
        mtime = (self._out / path).stat().st_mtime_ns
        line = {"file": path, "size": size, "sha256": sha256, "source": self.source, "mtime": mtime}
        return self._note(path, line)

    def adopt(self, path: str, entry: Entry, before: float) -> None:
        """Note a file that a manifest has signed for, if it is there, has its size and is not younger than ``before``.

        Args:
            path: of the file.
            entry: what the manifest says of it.
            before: modification time in nanoseconds beyond which somebody has touched it.
        """
        try:
            found = (self._out / path).stat()
        except OSError:
            return
        if path not in self._files and found.st_size == entry["size"] and found.st_mtime_ns <= before:
            self._note(path, {"file": path, **entry, "mtime": found.st_mtime_ns})

    def _note(self, path: str, line: dict[str, Any]) -> Entry:
        self._files[path] = line
        self._write(line)
        return _entry(line)

    def entries(self) -> dict[str, Entry]:
        """Give every file that is noted and still there."""
        found = {path: self._there(path, line["size"], hashed=False) for path, line in self._files.items()}
        return {path: entry for path, entry in found.items() if entry is not None}

    def _write(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            os.write(self._descriptor, (json.dumps(line) + "\n").encode())

    def remove(self) -> None:
        """Take it away: the manifest is written."""
        remove(self._path)


def _entry(line: Mapping[str, Any]) -> Entry:
    return {key: line[key] for key in ("size", "sha256", "source") if key in line}


def begun(out: Path) -> tuple[str, Mapping[str, Any]] | None:
    """Give digest and facts of the plan that a journal in the target belongs to; None where there is no journal."""
    lines = _lines(out / JOURNAL)
    if not lines:
        return None
    facts = lines[0].get("facts")
    return str(lines[0].get("plan", "")), facts if isinstance(facts, dict) else {}


def files_of(out: Path) -> list[str]:
    """Name the files that a journal in the target lists."""
    return [str(line["file"]) for line in _lines(out / JOURNAL)[1:]]


def _lines(path: Path) -> list[dict[str, Any]]:
    """Read the lines that are whole: the last may have been cut off."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and (not found or isinstance(value.get("file"), str)):
            found.append(value)
    return found
