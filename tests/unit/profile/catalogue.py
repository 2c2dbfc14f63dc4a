"""The catalogue of bad input: ``data/bad/NAME.yaml`` and, beside it, ``NAME.txt`` with what an operator is told.

``python -m tests.unit.profile.catalogue`` from the top of the checkout writes the texts anew; read the difference.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from sgdeploy.profile.load import Draft, draft

FOLDER = Path(__file__).resolve().parent / "data" / "bad"
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
_LONGEST = 160


@cache
def drafted(name: str) -> Draft:
    """Read one case; the working folder is ``FOLDER``."""
    return draft(Path(f"{name}.yaml"))


def report(read: Draft) -> str:
    """Write the problems as a compiler does."""
    lines: list[str] = []
    for problem in read.problems:
        assert problem.place is not None, problem
        place = problem.place
        lines.append(f"{place}: {problem.level}: {problem.message} [{problem.code}]")
        if place.text.isprintable() and 0 < len(place.text) < _LONGEST:
            lines.append(f"    {place.text}")
            lines.append(f"    {' ' * (place.column - 1)}{'^' * place.width}")
        if problem.hint:
            lines.append(f"  hint: {problem.hint}")
    return "\n".join(lines) + "\n"


def write() -> None:
    """Write every expected text anew."""
    os.chdir(FOLDER)
    for name in CASES:
        Path(f"{name}.txt").write_text(report(drafted(name)), encoding="utf-8")


if __name__ == "__main__":
    write()
