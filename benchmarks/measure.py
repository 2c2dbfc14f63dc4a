"""What all benchmarks share: rivals in turn, medians and ratios, aims, and figures kept for the picture."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

CHECKOUT = Path(__file__).resolve().parents[1]
LIMIT = 600.0
"""Seconds that one program may take before the benchmark gives up."""

Figures: TypeAlias = "dict[str, float]"
Rival: TypeAlias = "Callable[[], Figures]"


@dataclass(frozen=True)
class Series:
    """The same figure of all runs.

    Attributes:
        name: whose and of what.
        values: seconds, in the order of the runs.
    """

    name: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class Aim:
    """What a figure should be: at most so many seconds, or so many times the figure of a rival.

    Attributes:
        name: of the figure.
        most: seconds, or times.
        rival: name of the figure that it is divided by, "" where ``most`` is in seconds.
        worst: whether the largest value counts instead of the median.
        unit: of the figure.
    """

    name: str
    most: float
    rival: str = ""
    worst: bool = False
    unit: str = "s"


@dataclass
class Table:
    """All series of one benchmark at one size.

    Attributes:
        title: what was measured.
        base: name of the series that ratios are made with, "" for none.
        size: number of hosts, or whatever the benchmark grows with; 0 for nothing.
        series: by name.
    """

    title: str
    base: str
    size: int = 0
    series: dict[str, Series] = field(default_factory=dict)

    def show(self, aims: Iterable[Aim] = ()) -> None:
        """Print median, least and most of each series, its ratio to the base, and whether each aim is met."""
        width = max(len(name) for name in self.series)
        print(f"\n{self.title}  ({len(next(iter(self.series.values())).values)} runs, seconds)")
        print(f"  {'':{width}}  {'median':>8} {'least':>8} {'most':>8} {'ratio':>7}")
        for series in self.series.values():
            least, most = min(series.values), max(series.values)
            print(f"  {series.name:{width}}  {series.median:8.3f} {least:8.3f} {most:8.3f} {self._ratio(series):>7}")
        for aim in aims:
            print(f"  {self._judge(aim)}")

    def _ratio(self, series: Series) -> str:
        return f"{series.median / self.series[self.base].median:.2f}" if self.base else ""

    def _judge(self, aim: Aim) -> str:
        series = self.series[aim.name]
        found = max(series.values) if aim.worst else series.median
        what, unit = f"{'worst' if aim.worst else 'median'} of {aim.name}", f" {aim.unit}"
        if aim.rival:
            found /= self.series[aim.rival].median
            what, unit = f"{aim.name} / {aim.rival}", ""
        verdict = "met" if found <= aim.most else "MISSED"
        return f"aim {verdict}: {what} is {found:.2f}{unit}, should be at most {aim.most:g}{unit}"


def in_turn(rivals: Mapping[str, Rival], runs: int) -> dict[str, Series]:
    """Run rivals A B C A B C …, so that whatever else the machine does falls on all of them alike.

    A round before the first is thrown away: it fills caches. A rival gives one figure (key "") or several; each
    becomes a series of its own.
    """
    found: dict[str, list[float]] = {}
    for turn in range(runs + 1):
        for name, rival in rivals.items():
            figures = rival()
            for what, value in figures.items() if turn else ():
                found.setdefault(", ".join(filter(None, (name, what))), []).append(value)
    return {name: Series(name, tuple(values)) for name, values in found.items()}


def environment() -> dict[str, str]:
    """Give what programs get: our package, and none of the caller's settings of Python (one keeps it from caching)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONPATH": str(CHECKOUT)}


def program(argv: Sequence[str | Path], **options: Any) -> Figures:
    """Run a program and give its wall time.

    Raises:
        RuntimeError: it failed; with the end of what it said.
    """
    begin = time.perf_counter()
    output(argv, **options)
    return {"": time.perf_counter() - begin}


def output(argv: Sequence[str | Path], **options: Any) -> str:
    """Run a program and give what it wrote to stdout.

    Raises:
        RuntimeError: it failed; with the end of what it said.
    """
    done = subprocess.run(
        [str(word) for word in argv],
        **{"stdin": subprocess.DEVNULL, "timeout": LIMIT, **options},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        message = f"{' '.join(map(str, argv))[:200]} ended with {done.returncode}: {done.stderr[-2000:]}"
        raise RuntimeError(message)
    text: str = done.stdout
    return text


def reported(argv: Sequence[str | Path], **options: Any) -> Figures:
    """Run a program that measures itself and writes its figures as one JSON object; give them."""
    figures: Figures = json.loads(output(argv, **options))
    return figures


@contextmanager
def packages(*wanted: str) -> Iterator[Path]:
    """Give the ``python`` of a temporary virtual environment that holds these packages; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sgdeploy-bench-") as folder:
        print(f"installing {', '.join(wanted)} into a temporary environment", file=sys.stderr)
        venv.create(folder, with_pip=True, symlinks=True)
        python = Path(folder, "bin", "python")
        output([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted], env=environment())
        yield python


def words(about: str, *, runs: int, sizes: Sequence[int] = (), what: str = "hosts") -> argparse.Namespace:
    """Read the command line: ``--runs``, ``--keep FILE``, and ``--hosts`` (or ``what``) where there are sizes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--runs", type=int, default=runs, help=f"measurements of each rival (default {runs})")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the figures there as JSON")
    if sizes:
        standard = ",".join(map(str, sizes))
        parser.add_argument(
            f"--{what}",
            dest="sizes",
            type=lambda text: [int(part) for part in text.split(",")],
            default=list(sizes),
            metavar="N,N,…",
            help=f"numbers of {what} (default {standard})",
        )
    return parser.parse_args()


def keep(tables: Iterable[Table], file: Path | None) -> None:
    """Write figures where the picture is made from, with what the machine was doing; nothing without a file."""
    if file is None:
        return
    machine = {"cores": os.cpu_count(), "load": [round(load, 2) for load in os.getloadavg()]}
    rows = [asdict(table) for table in tables]
    file.write_text(json.dumps({"machine": machine, "tables": rows}, indent=1) + "\n", encoding="utf-8")
