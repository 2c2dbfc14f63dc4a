"""What is asked of a host, and the raw answer, before anybody understands it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sgdeploy.facts.model import PathFact, Space


@dataclass(frozen=True)
class Wanted:
    """Arguments of the node operation ``gather``, in parts that add up.

    Attributes:
        files: paths or globs to read.
        commands: name → argv.
        stat: paths to look at.
        space: paths whose file systems to measure.
        programs: names to look for in PATH.
        environ: variables of a session, whatever their case.
    """

    files: tuple[str, ...] = ()
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stat: tuple[str, ...] = ()
    space: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    environ: tuple[str, ...] = ()

    def __add__(self, other: Wanted) -> Wanted:
        """Ask for both."""
        return Wanted(
            self.files + other.files,
            {**self.commands, **other.commands},
            self.stat + other.stat,
            self.space + other.space,
            self.programs + other.programs,
            self.environ + other.environ,
        )

    def to_json(self) -> dict[str, Any]:
        """Give the request, every path once."""
        return {
            "files": list(dict.fromkeys(self.files)),
            "commands": {name: list(argv) for name, argv in self.commands.items()},
            "stat": list(dict.fromkeys(self.stat)),
            "space": list(dict.fromkeys(self.space)),
            "programs": list(self.programs),
            "environ": list(self.environ),
        }


@dataclass(frozen=True)
class Raw:
    """The result of ``gather`` with one way to ask for each kind of thing; what is missing is empty or None."""

    result: Mapping[str, Any]

    def file(self, path: str) -> str:
        """Give the text of a file, "" where it could not be read."""
        return (self.result.get("files") or {}).get(path) or ""

    def files(self, pattern: str) -> Iterator[tuple[re.Match[str], str]]:
        """Yield the files whose path ends in a match of ``pattern``, whatever prefix (sysfs root) stands before."""
        for path, text in (self.result.get("files") or {}).items():
            match = re.search(pattern + "$", path)
            if match and text is not None:
                yield match, text

    def counts(self, pattern: str) -> Iterator[tuple[re.Match[str], int]]:
        """Yield the files of ``files`` that hold one number."""
        return ((match, int(text)) for match, text in self.files(pattern) if text.strip().isdecimal())

    def output(self, name: str) -> str | None:
        """Give the standard output of a command, None where it failed or could not run."""
        ran = (self.result.get("commands") or {}).get(name) or {}
        return ran.get("out") or "" if ran.get("rc") == 0 else None

    def part(self, name: str) -> Mapping[str, Any]:
        """Give one part of the answer: ``machine``, ``environ``, ``programs``; empty where it is not there."""
        found: Mapping[str, Any] = self.result.get(name) or {}
        return found

    def space(self, path: str) -> Space | None:
        """Give the file system behind a path."""
        found = (self.result.get("space") or {}).get(path)
        if not found:
            return None
        if found.get("error"):
            return Space(nearest=path, error=found["error"])
        names = ("total", "free", "inodes_free", "writable")
        return Space(**{name: found.get(name) for name in names}, nearest=found.get("nearest") or path)

    def paths(self) -> dict[str, PathFact]:
        """Give what is at each path that was asked for."""
        return {
            path: PathFact(
                exists=bool(found.get("exists")),
                kind=found.get("kind"),
                executable=bool(found.get("executable")),
                readable=bool(found.get("readable")),
                size=found.get("size"),
                error=found.get("error") or "",
            )
            for path, found in (self.result.get("stat") or {}).items()
        }
