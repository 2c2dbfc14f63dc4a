"""Explanations for people: the value first, then who set it and what that overrode."""

from __future__ import annotations

from textwrap import dedent

from sgdeploy.console.explanations import explanation_lines
from sgdeploy.plan.explain.said import Answer, Cause, Explanation, Said
from sgdeploy.problems import Place

PLATFORM = Said("platform cpu", 64, causes=(Cause("platform_settings.x", Place("my.yaml", 9, 3)), Cause("y", None)))


def shown(*explanations: Explanation) -> str:
    return "".join(f"{line}\n" for line in explanation_lines(explanations))


def test_a_flag_that_differs_between_instances() -> None:
    said = (
        Said("native.flags.page-size", 32, place=Place("--set", 1, 14)),
        Said("engine.flags.page-size", None, "overridden", Place("my.yaml", 12, 5)),
        Said("engine 0.5.23", 1, "overridden", note="its default"),
    )
    answers = (Answer((("32", ("a/n1", "a/n2")),), said), Answer((("64", ("b/n3",)),), (PLATFORM,)))
    assert shown(Explanation("flag", "--page-size", "", answers, program="engine 0.5.23")) == dedent("""\
        --page-size of engine 0.5.23
          32 in 2 processes: a/n[1-2]
            set by  --set no. 1   native.flags.page-size: 32
            over    my.yaml:12:5  engine.flags.page-size: nothing
            over    -             engine 0.5.23: 1  (its default)
          64 in 1 process: b/n3
            set by  -  platform cpu: 64, following platform_settings.x (my.yaml:9:3), y (not set)
        """)


def test_many_values_are_summed_up() -> None:
    values = tuple((str(30000 + rank), (f"native/n1/r{rank:02d}",)) for rank in range(16))
    said = (Said("native.port", standing="cause", note="not set; default 30000"),)
    found = Explanation("flag", "--port", "set `port` of the instance", (Answer(values, said),), program="engine x")
    assert shown(found) == dedent("""\
        --port of engine x  (set `port` of the instance)
          30000 … 30015 (16 values) in 16 processes: native/n1/r[00-15]
            from  -  native.port  (not set; default 30000)
        """)


def test_keys_stand_close_together_and_foreign_text_is_harmless() -> None:
    keys = [
        Explanation("key", name, about, (Answer(((value, ()),), (Said(who, value, place=place),)),))
        for name, about, value, who, place in (
            ("health.stall", "Limit.", "5m", "health.stall", Place("a\x1b[2J.yaml", 2, 1)),
            ("model.served_name", "", None, "default of sgdeploy", None),
        )
    ]
    variable = Explanation("variable", "MODE", "", (Answer((("\x1b[31mred", ("n/1",)),), (Said("sgdeploy", "x"),)),))
    assert shown(*keys, variable) == dedent("""\
        health.stall = 5m  (Limit.)
            set by  a.yaml:2:1
        model.served_name = nothing
            set by  -  default of sgdeploy: nothing

        MODE
          red in 1 process: n/1
            set by  -  sgdeploy: x
        """)
