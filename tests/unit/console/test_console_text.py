"""Foreign text is harmless on a terminal; numbers read as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sgdeploy.console.text import below, clean, cut, duration, grid, untimed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07left", "left"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bcreset", "reset"),
        ("\x9b2Jc1", "c1"),
        ("a\tb", "a b"),
        ("bell\x07", r"bell\x07"),
        ("over\rwrite\n", r"over\x0dwrite\x0a"),
        ("cut \x1b[", "cut "),
        ("\x1b]0;no end", "0;no end"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("half \ud83d", r"half \ud83d"),
        ("line\u2028end", r"line\u2028end"),
        ("权重已加载 ✓", "权重已加载 ✓"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text(max_size=60))
def test_clean_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = clean(text)
    assert not any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in shown)
    shown.encode()  # no half surrogates: every stream can write it
    assert clean(shown) == shown


@given(st.text(max_size=40), st.integers(min_value=0, max_value=30))
def test_cut_text_fits(text: str, width: int) -> None:
    assert cell_len(cut(clean(text), width)) <= width


def test_cut_says_that_something_is_missing() -> None:
    assert cut("weights loaded", 9) == "weights…"
    assert cut("权重已加载", 6) == "权重…"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.84, "0.8 s"),
        (35.2, "35 s"),
        (119.2, "119 s"),
        (120, "2m00s"),
        (185, "3m05s"),
        (3600, "1h00m"),
        (7500, "2h05m"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_grid_aligns_wide_characters_and_cuts_the_last_column() -> None:
    rows = [("主机", "last line"), ("n1", "a very long line indeed")]
    assert [str(line) for line in grid(rows, width=16)] == ["主机  last line", "n1    a very lo…"]
    assert grid([]) == []


def test_a_log_line_without_its_time() -> None:
    assert untimed("[2026-11-29 16:31:37 TP0] Load weight begin.") == "TP0 Load weight begin."
    assert untimed("[2026-11-29 16:31:37] INFO:     started") == "INFO:     started"
    assert untimed("[0] no time") == "[0] no time"


def test_what_an_id_says_besides_its_host() -> None:
    assert below("big/native/n01/r07", "n01") == "native/r07"
    assert below("big/prefill/short/n01", "n01") == "prefill/short"
    assert below("big/router", "n01") == "router"
    assert below("big", "n01") == "big"
