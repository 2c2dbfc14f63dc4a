"""Draw how the figures grow, from what the other benchmarks kept: ``python -m benchmarks.picture FOLDER OUT.svg``.

An SVG by hand, so that it needs no package. Both axes are logarithmic: a straight line is growth by a power.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import connect, deaths, plan, up

WIDTH, HEIGHT, MARGIN, TITLE, LEGEND = 460, 250, 52, 34, 18
"""Of one panel, in pixels: the plot, the space around it, and lines of text."""
COLOURS = ("#1f5fa8", "#c2410c", "#15803d", "#7e22ce", "#525252")
STYLE = "font-family:sans-serif;font-size:12px;fill:#222"


@dataclass(frozen=True)
class Line:
    """One curve: its name, and for each size the least, the median and the largest value in seconds."""

    name: str
    points: tuple[tuple[int, float, float, float], ...]


@dataclass(frozen=True)
class Panel:
    """One diagram."""

    title: str
    across: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Scale:
    """Turns sizes and seconds of one panel into pixels."""

    sizes: tuple[int, int]
    seconds: tuple[float, float]

    @classmethod
    def of(cls, panel: Panel) -> Scale:
        """Fit the scale to all points; the seconds go from a power of ten to a power of ten."""
        points = [point for line in panel.lines for point in line.points]
        least, most = min(point[1] for point in points), max(point[3] for point in points)
        low, high = 10 ** math.floor(math.log10(least)), 10 ** math.ceil(math.log10(most))
        return cls((min(point[0] for point in points), max(point[0] for point in points)), (low, high))

    def x(self, size: float) -> float:
        """Give the place of a size."""
        return MARGIN + WIDTH * _share(size, *self.sizes)

    def y(self, seconds: float) -> float:
        """Give the place of a time."""
        return TITLE + HEIGHT * (1 - _share(seconds, *self.seconds))


def _share(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low) if high > low else 0.5


def panels(folder: Path) -> tuple[Panel, ...]:
    """Read the kept figures."""
    ranks = f"hosts with {deaths.RANKS} ranks each"
    others = ("OpenSSH under xargs: true", "parallel-ssh: true", "pyinfra: true")
    second = f"{connect.OURS}, {connect.SECOND}"
    return (
        Panel(
            "Connect and facts", "hosts", _lines(folder / "connect.json", connect.OURS, second, connect.BARE, *others)
        ),
        Panel("Bring-up", ranks, _lines(folder / "up.json", up.OURS, up.HAND, f"{up.OURS}, {up.DOWN}")),
        Panel("From the death of a rank to its report", ranks, _lines(folder / "deaths.json", deaths.OURS)),
        Panel("Plan and scripts", "processes", _lines(folder / "plan.json", plan.OURS, plan.JINJA)),
    )


def _lines(file: Path, *names: str) -> tuple[Line, ...]:
    tables: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["tables"]

    def point(table: dict[str, Any], name: str) -> tuple[int, float, float, float]:
        values = table["series"][name]["values"]
        return table["size"], min(values), median(values), max(values)

    return tuple(Line(name, tuple(point(table, name) for table in tables)) for name in names)


def draw(panel: Panel) -> Iterator[str]:
    """Give the elements of one panel, its upper left corner at 0, 0."""
    scale = Scale.of(panel)
    yield f'<text x="{MARGIN}" y="18" style="{STYLE};font-weight:bold">{panel.title}</text>'
    yield from _grid(panel, scale)
    for number, line in enumerate(panel.lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{scale.x(size):.1f},{scale.y(middle):.1f}" for size, _, middle, _ in line.points)
        yield f'<polyline points="{path}" style="fill:none;stroke:{colour};stroke-width:2"/>'
        for size, least, middle, most in line.points:
            x = f"{scale.x(size):.1f}"
            yield f'<path d="M{x} {scale.y(least):.1f}V{scale.y(most):.1f}" style="stroke:{colour};stroke-width:1"/>'
            yield f'<circle cx="{x}" cy="{scale.y(middle):.1f}" r="3" style="fill:{colour}"/>'
        y = TITLE + HEIGHT + 2 * LEGEND + LEGEND * (number + 1)
        yield f'<path d="M{MARGIN} {y - 4}h24" style="stroke:{colour};stroke-width:2"/>'
        yield f'<text x="{MARGIN + 32}" y="{y}" style="{STYLE}">{line.name}</text>'


def _grid(panel: Panel, scale: Scale) -> Iterator[str]:
    low, high = scale.seconds
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = scale.y(10**power)
        yield f'<path d="M{MARGIN} {y:.1f}h{WIDTH}" style="stroke:#ddd"/>'
        label = f"{10**power:g} s"
        yield f'<text x="{MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end" style="{STYLE}">{label}</text>'
    for size in sorted({point[0] for line in panel.lines for point in line.points}):
        x, bottom = scale.x(size), TITLE + HEIGHT
        yield f'<path d="M{x:.1f} {TITLE}v{HEIGHT}" style="stroke:#ddd"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" style="{STYLE}">{size}</text>'
    middle = MARGIN + WIDTH / 2
    yield f'<text x="{middle}" y="{TITLE + HEIGHT + 32}" text-anchor="middle" style="{STYLE}">{panel.across}</text>'


def picture(all_panels: Iterable[Panel]) -> str:
    """Put the panels into two columns."""
    listed = list(all_panels)
    wide = WIDTH + MARGIN + 40
    tall = TITLE + HEIGHT + 3 * LEGEND + LEGEND * max(len(panel.lines) for panel in listed)
    rows = math.ceil(len(listed) / 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * wide} {rows * tall}" width="{2 * wide}">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, panel in enumerate(listed):
        parts += [f'<g transform="translate({number % 2 * wide} {number // 2 * tall})">', *draw(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Draw."""
    folder, out = map(Path, sys.argv[1:])
    out.write_text(picture(panels(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
