"""Files with one host (or range) per line; ``#`` starts a comment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sgdeploy.problems import Problem
from sgdeploy.profile.hosts import HostRangeError, Named, scan
from sgdeploy.profile.locate import shown
from sgdeploy.profile.source import Source, read

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath, Place


def read_hosts(file: str, path: KeyPath) -> tuple[list[Named], list[Problem], Path]:
    """Read the hosts of a file, in order, each once.

    Args:
        file: its path, absolute or relative to the working folder.
        path: the key that names the file; a file that cannot be read is a problem there.

    Returns:
        The hosts, the problems (those about a line carry their place in the file), and the file's absolute path.
    """
    absolute = Path(file).absolute()
    source = read(absolute, shown(absolute, absolute=False), absolute.parent)
    if isinstance(source, Problem):
        about_file = source.code in {"file-missing", "file-unreadable"}
        problem = Problem(source.message, source.hint, path, code=source.code)
        return [], [problem if about_file else source], absolute
    found: dict[str, tuple[Named, Place]] = {}
    problems: list[Problem] = []
    for number, line in enumerate(source.lines):
        text = line.partition("#")[0].rstrip()
        if not text.strip():
            continue
        try:
            named = scan(text)
        except HostRangeError as error:
            place = source.place(number, error.offset, error.width)
            problems.append(Problem(error.message, error.hint, path, place=place, code="host-range"))
            continue
        for one in named:
            place = source.place(number, one.offset, one.width)
            if one.name in found:
                text = f"duplicate host `{one.name}`; the first is on line {found[one.name][1].line}"
                problems.append(Problem(text, "name each host once", path, place=place, code="host-duplicate"))
            found.setdefault(one.name, (one, place))
    if not found and not problems:
        problems.append(_empty(source, path))
    return [one for one, _ in found.values()], problems, absolute


def _empty(source: Source, path: KeyPath) -> Problem:
    hint = "write one host per line"
    return Problem(f"{source.name} names no host", hint, path, place=source.place(0, 0), code="host-range")
