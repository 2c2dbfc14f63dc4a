"""What the benchmarks share: turns, medians, aims, and a picture that anybody can draw again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from benchmarks.measure import CHECKOUT, Aim, Figures, Series, Table, in_turn, keep
from benchmarks.picture import panels, picture

FIGURES = CHECKOUT / "benchmarks" / "figures"
PICTURE = CHECKOUT / "docs" / "performance.svg"


def test_rivals_run_in_turn_and_the_first_round_is_thrown_away() -> None:
    order: list[str] = []
    clock = count()

    def rival(name: str) -> Figures:
        order.append(name)
        return {"": next(clock), "second": 0.5} if name == "a" else {"": next(clock)}

    found = in_turn({name: partial(rival, name) for name in "ab"}, 3)
    assert order == list("abababab")
    assert {name: series.values for name, series in found.items()} == {
        "a": (2, 4, 6),
        "a, second": (0.5, 0.5, 0.5),
        "b": (3, 5, 7),
    }


@pytest.mark.parametrize(
    ("aim", "said"),
    [
        (Aim("ours", 1.5, "theirs"), "aim met: ours / theirs is 1.50, should be at most 1.5"),
        (Aim("ours", 1.4, "theirs"), "aim MISSED: ours / theirs is 1.50, should be at most 1.4"),
        (Aim("ours", 3), "aim met: median of ours is 3.00 s, should be at most 3 s"),
        (Aim("ours", 3, worst=True), "aim MISSED: worst of ours is 9.00 s, should be at most 3 s"),
    ],
)
def test_aims_are_judged_by_medians(aim: Aim, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    series = {name: Series(name, values) for name, values in {"ours": (1, 3, 9), "theirs": (2, 2, 0.1)}.items()}
    Table("title", "theirs", 16, series).show([aim])
    shown = capsys.readouterr().out
    assert said in shown
    assert "  ours       3.000    1.000    9.000    1.50\n" in shown


def test_kept_figures_can_be_read_again(tmp_path: Path) -> None:
    keep([Table("title", "", 16, {"ours": Series("ours", (1, 2))})], tmp_path / "kept.json")
    kept = json.loads((tmp_path / "kept.json").read_text(encoding="utf-8"))
    assert kept["tables"][0]["series"]["ours"]["values"] == [1, 2]
    assert kept["machine"]["cores"] == os.cpu_count()


def test_the_picture_in_the_docs_is_drawn_from_the_kept_figures() -> None:
    text = picture(panels(FIGURES))
    assert text == PICTURE.read_text(encoding="utf-8")
    assert text.count("<polyline") >= 4


@pytest.mark.parametrize("name", ["start", "plan", "connect", "up", "deaths"])
def test_each_benchmark_says_what_it_measures(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--runs" in done.stdout
    assert "--keep" in done.stdout
