"""What becomes of what runs, for people."""

from __future__ import annotations

from textwrap import dedent

from sgdeploy.console.replans import replan_lines
from sgdeploy.deploy.replan import Replan, replan
from tests.unit.deploy.fakes import make_plan
from tests.unit.deploy.test_parts import with_router
from tests.unit.deploy.test_replan import changed, on_record


def shown(found: Replan) -> str:
    return "".join(f"{line}\n" for line in replan_lines(found))


def test_nothing_differs() -> None:
    plan = make_plan()
    assert shown(replan(plan, on_record(plan))) == "no difference: demo runs as planned\n"


def test_all_of_it_is_said_in_the_words_of_plans() -> None:
    before = with_router()
    router = before.of_units({"router"})[0]
    after = changed(before, "router", argv=(*router.argv, "--page-size", "64"), env={"MODE": "\x1b[2Jslow"})
    records = on_record(before, {"demo/prefill/h1": {"signal": 9}})
    assert shown(replan(after, records)) == dedent("""\
        demo: 1 unit restarts, 1 unit starts, 1 unit goes on
          start    prefill: prefill/h1 on h1: killed by SIGKILL (9)
          restart  router (1 process on h3)
            router
              --page-size  nothing → 64
              env MODE     nothing → slow
          keep     decode
        """)


def test_what_goes_and_what_is_left_alone() -> None:
    before, after = make_plan(3), make_plan(2)
    assert "restart  native (3 processes on h[1-3]): native/h3 runs, and the plan has no such process" in shown(
        replan(after, on_record(before))
    )
    plan = with_router()
    found = replan(plan, on_record(plan, {"demo/decode/h2": None}), ("router",))
    assert "  leave    decode: decode/h2 on h2: ended, and nobody saw how\n" in shown(found)


def test_what_is_about_no_process() -> None:
    plan = make_plan()
    after = plan.model_copy(update={"limits": plan.limits.model_copy(update={"grace": 99.0})})
    assert shown(replan(after, on_record(plan))) == dedent("""\
        demo: 1 unit goes on
          keep     native
          nothing restarts for the rest: it is about no process, and is written on record
        """)
