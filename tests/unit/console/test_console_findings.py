"""Causes on the screen: once for many ranks, below the process at fault, harmless whatever a log holds."""

from __future__ import annotations

import json
from textwrap import dedent

from sgdeploy.deploy.events import DeploymentStatus
from sgdeploy.diagnose.advice import Advice
from sgdeploy.diagnose.judge import diagnose
from sgdeploy.errors import Cause, Missing, ProcessFault, StartupError, WaitTimeoutError
from tests.diagnose.cases import at, follower, log
from tests.unit.console.samples import screen

CAUSE = Cause(
    "unknown-flag",
    "demo/native/h1",
    "h1",
    "this version does not know the flag --x",
    "correct or remove --x",
    ("/logs/n0.log:478 | error: unrecognized arguments: --x",),
)


def test_many_ranks_that_follow_are_told_once() -> None:
    reset = at(60, "RuntimeError: [x/gloo/transport/tcp/pair.cc:1] Connection reset by peer")
    told = "'nnodes': 4, 'node_rank': {}, 'dist_init_addr': '10.0.0.1:5000'"
    logs = [log(f"demo/n{n}", *follower(at(60, "x"), reset), told=told.format(n)) for n in range(3)]
    made = screen()
    made.console.diagnosis(
        diagnose([*logs, log("demo/n3", *follower(), told=told.format(3))]), {"h9": "no route to host"}
    )
    lines = made.out.getvalue().splitlines()
    assert lines[0].startswith("cause: demo/n3: died without a word (no last words)")
    assert "follows: demo/n[0-2]: it lost the connection to a peer  [peer-lost]" in lines
    assert lines[-1] == "warning: h9 could not be asked: no route to host"
    assert made.err.getvalue() == ""


def test_a_failure_shows_its_cause_the_line_and_the_next_step() -> None:
    made = screen()
    error = StartupError(
        "demo/native/h1: exit code 2", [ProcessFault("demo/native/h1", "h1", "exit code 2", cause=CAUSE)]
    )
    error.causes = (CAUSE,)
    made.console.error(error)
    assert made.err.getvalue() == dedent("""\
        error: demo: native/h1 failed: this version does not know the flag --x
          native/h1 failed on h1: exit code 2
            cause: this version does not know the flag --x  [unknown-flag]
            | /logs/n0.log:478 | error: unrecognized arguments: --x
            next: correct or remove --x
        """)


def test_a_cause_that_lies_with_another_process_is_told_with_its_name() -> None:
    made = screen()
    error = WaitTimeoutError("the limit of 6 s ran out", [Missing("demo/native/h2", "h2", "joining the other ranks")])
    error.causes = (CAUSE,)
    made.console.error(error)
    assert "  native/h1 on h1\n    cause: this version does not know" in made.err.getvalue()


def test_programs_get_causes_as_well() -> None:
    made = screen("json")
    error = StartupError("x", [ProcessFault("demo/native/h1", "h1", "exit code 2", cause=CAUSE)])
    error.causes = (CAUSE,)
    made.console.error(error)
    body = json.loads(made.out.getvalue())
    assert body["causes"][0]["rule"] == body["faults"][0]["cause"]["rule"] == "unknown-flag"


def test_what_a_log_holds_does_nothing_to_the_terminal() -> None:
    made = screen()
    evil = "KeyError: '\x1b]0;title\x07\x1b[2Jx\x9b1m'"
    made.console.diagnosis(diagnose([log("n0", evil)]), {})
    assert "\x1b" not in made.out.getvalue()
    assert "\x9b" not in made.out.getvalue()


def test_a_status_shows_causes_and_advice() -> None:
    made = screen()
    advice = tuple(
        Advice(f"demo/native/h{n}", f"h{n}", "3 retractions in 1 min", "it runs full", "raise x") for n in (1, 2)
    )
    made.console.status(DeploymentStatus("demo", "degraded", "", (), {}, "", (), "http://x", (CAUSE,), advice))
    text = made.out.getvalue()
    assert "cause: this version does not know the flag --x  [unknown-flag]" in text
    assert "advice: demo/native/h[1-2]: 3 retractions in 1 min\n  it runs full\n  change: raise x\n" in text
