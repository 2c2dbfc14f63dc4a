"""Every kind of error says what, why and what next, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from textwrap import dedent

import pytest

from sgdeploy.deploy.events import ProcessFailed
from sgdeploy.errors import (
    CancelledRunError,
    Cause,
    HostFault,
    Leftover,
    LeftoverError,
    LockedError,
    Missing,
    PreflightError,
    ProcessFault,
    RemoteError,
    SgdeployError,
    StartupError,
    StateError,
    UsageError,
    WaitTimeoutError,
)
from sgdeploy.remote.base import LostHostError, NodeError
from tests.unit.console.samples import screen

FAULTS = [HostFault("n03", "Connection refused", "systemctl start sshd"), HostFault("n04", "no answer in 10 s")]
CASES: list[tuple[SgdeployError, str]] = [
    (
        RemoteError("2 of 16 hosts could not be reached; nothing was started", FAULTS, hint="mend them, then up again"),
        """\
        error: 2 of 16 hosts could not be reached; nothing was started
          n03: Connection refused
            hint: systemctl start sshd
          n04: no answer in 10 s
        hint: mend them, then up again
        """,
    ),
    (
        PreflightError("1 host does not fit the plan", [HostFault("n05", "port 30000 is taken by pid 7 (nginx)")]),
        """\
        error: 1 host does not fit the plan
          n05: port 30000 is taken by pid 7 (nginx)
        """,
    ),
    (
        StartupError(
            "1 of 256 processes failed",
            [ProcessFault("big/native/n03/r05", "n03", "killed by SIGKILL", ("a\x1b[2Jb",), "/run/r05.log", 0.4)],
            hint="look at the host's memory",
        ),
        """\
        error: 1 of 256 processes failed
          native/n03/r05 failed on n03: killed by SIGKILL (reported 0.4 s after its death)
            | ab
            log: /run/r05.log
        hint: look at the host's memory
        """,
    ),
    (
        WaitTimeoutError(
            "not ready after 45m00s (overall limit)",
            [
                Missing("big/native/n03/r05", "n03", "weights loaded", "Capture graph"),
                Missing("big/native/n10/r00", "n10", "starting"),
            ],
            hint="sgdeploy status big",
        ),
        """\
        error: not ready after 45m00s (overall limit)
          n03  native/n03/r05  weights loaded  Capture graph
          n10  native/n10/r00  starting
        hint: sgdeploy status big
        """,
    ),
    (
        LeftoverError("not proven gone on 2 hosts", [Leftover("n01", "process 77 (sglang)")], [FAULTS[1]]),
        """\
        error: not proven gone on 2 hosts
          n01: process 77 (sglang)
          n04: no answer in 10 s
        """,
    ),
    (NodeError("n01", "no-space", "/var is full", {}, hint="df /var"), "error: n01: /var is full\nhint: df /var\n"),
    (LostHostError("n01", "the connection was cut"), "error: n01: the connection was cut\n"),
    (CancelledRunError("interrupted; nothing runs", hint="go on"), "interrupted; nothing runs\nhint: go on\n"),
    (LockedError("root@n1 works on it"), "error: root@n1 works on it\n"),
    (StateError("records [bold]differ[/bold]"), "error: records [bold]differ[/bold]\n"),
    (UsageError("no deployment named x"), "error: no deployment named x\n"),
]


@pytest.mark.parametrize(("error", "text"), CASES, ids=[type(error).__name__ for error, _ in CASES])
def test_an_error_for_people(error: SgdeployError, text: str) -> None:
    made = screen()
    made.console.error(error)
    assert made.out.getvalue() == ""
    assert made.err.getvalue() == dedent(text)


@pytest.mark.parametrize("error", [error for error, _ in CASES], ids=lambda error: type(error).__name__)
def test_an_error_for_programs(error: SgdeployError) -> None:
    made = screen("json")
    made.console.error(error)
    (line,) = made.out.getvalue().splitlines()
    found = json.loads(line)
    assert found["kind"] == type(error).__name__
    assert found["exit_code"] == error.exit_code
    assert found["message"] == str(error)
    assert found["hint"] == error.hint
    assert "error" in made.err.getvalue() or "interrupted" in made.err.getvalue()


def test_the_lists_of_an_error_are_in_its_json() -> None:
    made = screen("json")
    for error, _ in CASES[:5]:
        made.console.error(error)
    remote, preflight, startup, timeout, leftover = map(json.loads, made.out.getvalue().splitlines())
    assert [fault["host"] for fault in remote["faults"]] == ["n03", "n04"]
    assert preflight["faults"][0]["hint"] is None
    assert startup["faults"][0]["seconds_to_report"] == 0.4
    assert timeout["missing"][1]["phase"] == "starting"
    assert leftover["leftovers"] == [{"host": "n01", "what": "process 77 (sglang)"}]


def test_a_problem_of_many_hosts_is_told_once() -> None:
    names = [f"n{number:02d}" for number in range(1, 17)]
    alike = [HostFault(name, "/opt/model does not exist", "mount it") for name in names]
    refused = [HostFault(name, f"{name}.lab port 22 refuses", f"nc -vz {name}.lab 22") for name in names]
    made = screen()
    made.console.error(PreflightError("33 problems", [*alike, *refused, HostFault("n03", "no python3")]))
    assert made.err.getvalue() == dedent("""\
        error: 33 problems
          n[01-16]: /opt/model does not exist
            hint: mount it
          n01: n01.lab port 22 refuses
            hint: nc -vz n01.lab 22
            likewise: n[02-16]
          n03: no python3
        """)


def test_a_host_whose_name_begins_with_anothers_is_not_alike() -> None:
    faults = [HostFault("n1", "n12 answers for n1"), HostFault("n12", "n12 answers for n12")]
    made = screen()
    made.console.error(RemoteError("2 problems", faults))
    assert "likewise" not in made.err.getvalue()


def test_of_many_failures_the_cause_is_seen() -> None:
    tail = ("loading", "RuntimeError: out of memory", "kill_process_tree called")
    faults = [ProcessFault("big/native/n07/r02", "n07", "exit code 1", tail, "/x.log", 0.6)]
    faults += [
        ProcessFault(f"big/native/n{host:02d}/r{rank:02d}", f"n{host:02d}", "killed by SIGKILL (9)", tail, symptom=True)
        for host in range(1, 17)
        for rank in range(16)
        if (host, rank) != (7, 2)
    ]
    made = screen()
    for fault in faults:
        made.console.tell(ProcessFailed(**{name: value for name, value in vars(fault).items() if name != "cause"}))
    assert made.err.getvalue() == dedent("""\
        native/n07/r02 failed on n07: exit code 1 (reported 0.6 s after its death)
          | loading
          | RuntimeError: out of memory
          | kill_process_tree called
          log: /x.log
        """)
    made.err.truncate(made.err.seek(0))
    made.console.error(StartupError("big/native/n07/r02: exit code 1 (and 255 more)", faults))
    assert made.err.getvalue() == dedent("""\
        error: big/native/n07/r02: exit code 1 (and 255 more)
          native/n07/r02 failed on n07: exit code 1 (reported 0.6 s after its death)
            | RuntimeError: out of memory
          255 more failed on n[01-16]: killed by SIGKILL (9), having lost a peer
        """)


def test_failures_that_blame_nobody_are_shown_as_well_up_to_three() -> None:
    made = screen()
    for number in range(1, 6):
        made.console.tell(
            ProcessFailed(f"big/native/n{number}", f"n{number}", f"exit code {number}", ("bad",), "", None)
        )
    assert made.err.getvalue().count("| bad") == 3


def test_what_all_ranks_say_alike_is_said_once() -> None:
    """Up to time and rank, which no two share."""
    line = "[2026-11-29 16:31:3{0} TP{0}] launch: error: unrecognized arguments: --foo"
    cause = Cause(
        "unknown-flag", "big/native/n1", "n1", "this version does not know --foo", "remove it", ("x:1 | --foo",)
    )
    faults = [
        ProcessFault(f"big/native/n{n}", f"n{n}", "exit code 2", ("usage", line.format(n)), f"/n{n}.log", n / 10)
        for n in (1, 2, 3)
    ]
    faults[0] = replace(faults[0], cause=cause)
    faults[1] = replace(faults[1], cause=replace(cause, process="big/native/n2", host="n2"))
    made = screen()
    for fault in faults:
        made.console.tell(ProcessFailed(**{name: value for name, value in vars(fault).items() if name != "cause"}))
    assert made.err.getvalue().count("--foo") == 1
    made.err.truncate(made.err.seek(0))
    error = StartupError("big/native/n1: exit code 2 (and 2 more)", faults)
    error.causes = (cause,)
    made.console.error(error)
    assert made.err.getvalue() == dedent("""\
        error: big: native/n1 (and 2 more) failed: this version does not know --foo
          native/n[1-3] failed on n[1-3]: exit code 2 (reported at most 0.3 s after their deaths)
            cause: this version does not know --foo  [unknown-flag]
            | x:1 | --foo
            next: remove it
        """)


def test_of_many_that_are_late_the_slowest_are_named() -> None:
    late = [Missing(f"big/native/n{n:02d}/r00", f"n{n:02d}", "loading weights", "Load") for n in range(1, 17)]
    made = screen()
    made.console.error(WaitTimeoutError("time ran out", late))
    lines = made.err.getvalue().splitlines()
    assert lines[10] == "  n10  native/n10/r00  loading weights  Load"
    assert lines[11:] == ["  and 6 more on n[11-16]: loading weights"]


def test_a_fault_of_ours() -> None:
    made = screen("json")
    made.console.fault_of_ours("KeyError: 'x'", "see /tmp/debug.txt")
    assert json.loads(made.out.getvalue())["exit_code"] == 70
    assert made.err.getvalue() == "error: sgdeploy failed: KeyError: 'x'\nhint: see /tmp/debug.txt\n"
