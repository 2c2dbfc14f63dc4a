"""What a running command shows: plain lines, JSON lines, nothing harmful, no less when quiet than is needed."""

from __future__ import annotations

import json
from textwrap import dedent

from sgdeploy.deploy.events import (
    Completion,
    Event,
    Heartbeat,
    HostState,
    Note,
    Outcome,
    ProcessFailed,
    RankState,
    Step,
)
from sgdeploy.errors import ProcessFault, StartupError
from tests.unit.console.samples import NOW, plan, screen

RANK = "big/native/n01/r00"
FAILED = ProcessFailed(RANK, "n01", "exit code 3", ("Loading", "\x1b[31mno such file\x1b[0m"), "/run/r00.log", 1.2)
STORY: tuple[Event, ...] = (
    Step(3, 6, "start 4 processes"),
    HostState("n01", "started", "2 processes"),
    RankState(RANK, "n01", "loading", "weights loaded", 12.34567, "[bold]not markup[/bold]"),
    RankState(RANK, "n01", "loading", "weights loaded", 13.3, "only a new line", changed=False),
    Heartbeat(40.0, {"ready": 3, "loading": 1}, "native/n01/r00: weights loaded"),
    Note("host keys are not checked", "warning", ("n02",), "set known_hosts: strict"),
    Note("records are put away"),
    FAILED,
    Completion(16, "Paris\x07 of course", 0.84, "The capital of France is"),
    Completion(8, " x", 0.5, "Hi", first_token=0.123, prefill="prefill/long"),
    Outcome("ready", "big serves at http://10.0.0.1:30000", 35.2),
)


def test_plain_lines() -> None:
    made = screen()
    with made.console.watching(plan()):
        for event in STORY:
            made.console.tell(event)
    assert made.out.getvalue() == ""
    assert made.err.getvalue() == dedent(r"""
        [3/6] start 4 processes
        n01: started (2 processes)
        n01: native/n01/r00 loading, weights loaded (12 s)
        after 40 s: 3 ready · 1 loading; waiting for native/n01/r00: weights loaded
        warning: n02: host keys are not checked
          hint: set known_hosts: strict
        note: records are put away
        native/n01/r00 failed on n01: exit code 3 (reported 1.2 s after its death)
          | Loading
          | no such file
          log: /run/r00.log
        completion: 16 tokens in 0.84 s: 'The capital of France is' → 'Paris\\x07 of course'
        completion: 8 tokens in 0.50 s, the first after 0.12 s, by prefill/long: 'Hi' → ' x'
        ready: big serves at http://10.0.0.1:30000 (35 s)
        """).lstrip("\n")


def test_quiet_leaves_failures_warnings_and_the_outcome() -> None:
    made = screen(quiet=True)
    for event in STORY:
        made.console.tell(event)
    lines = made.err.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines if not line.startswith("  ")] == [
        "warning",
        "native/n01/r00 failed on n01",
        "ready",
    ]


def test_json_is_one_object_a_line_with_the_time() -> None:
    made = screen("json")
    with made.console.watching(plan()):
        for event in STORY:
            made.console.tell(event)
    assert made.err.getvalue() == ""
    objects = [json.loads(line) for line in made.out.getvalue().splitlines()]
    assert [each["event"] for each in objects] == [event.kind for event in STORY]
    assert {each["time"] for each in objects} == {NOW}
    assert objects[0] == {"event": "step", "time": NOW, "number": 3, "of": 6, "title": "start 4 processes"}
    assert objects[7]["lines"] == list(FAILED.lines)
    assert objects[2]["seconds"] == 12.346
    assert "\x1b" not in made.out.getvalue()


def test_log_lines_that_were_shown_are_not_shown_again() -> None:
    fault = ProcessFault(RANK, "n01", "exit code 3", FAILED.lines, FAILED.log, 1.2)
    told, untold = screen(), screen()
    told.console.tell(FAILED)
    for made in (told, untold):
        made.console.error(StartupError("1 process failed", [fault]))
        assert made.err.getvalue().count("| Loading") == 1


def test_an_event_of_an_unknown_kind_is_shown_by_its_fields() -> None:
    class Odd(Event):
        kind = "odd"

        def to_json(self) -> dict[str, object]:
            return {"event": "odd", "size": 3}

    made = screen()
    made.console.tell(Odd())
    assert made.err.getvalue() == "odd: size=3\n"


def test_colour_only_where_asked_for() -> None:
    coloured, plain = screen(color=True), screen()
    for made in (coloured, plain):
        made.console.tell(STORY[-1])
    assert "\x1b[" in coloured.err.getvalue()
    assert "\x1b" not in plain.err.getvalue()
