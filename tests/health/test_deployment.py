"""What the verdict carries, and how observations are read from the wire."""

from __future__ import annotations

import pytest

from sgdeploy.deploy import events
from sgdeploy.errors import HostFault, Missing, ProcessFault
from sgdeploy.health import states
from sgdeploy.health.deployment import DeploymentHealth
from sgdeploy.health.machine import says_something_new
from sgdeploy.health.states import Exit, HttpAnswer, Observation
from sgdeploy.health.verdict import Failed, Waiting
from sgdeploy.plan.model import Limits
from tests.health.timeline import plan_of

LIMITS = Limits(timeout=1000, stall=500, grace=20)
CHECKS = {
    "lead": {"milestones": "engine", "http": "/health"},
    "peer": {"milestones": "engine-follower"},
    "other": {"milestones": "engine-follower"},
}


def _begun() -> DeploymentHealth:
    health, _ = DeploymentHealth.begin(plan_of(CHECKS, LIMITS), 0.0).started(["lead", "peer", "other"], 0.0)
    return health


def test_a_failure_carries_lines_log_and_time_to_report() -> None:
    dead = Observation("peer", alive=False, exit=Exit(code=3), died_ago=0.25, tail=("almost", "the end"))
    health, _ = _begun().observe([dead], 10.0)
    verdict = health.verdict(11.0, LIMITS)
    fault = ProcessFault("peer", "h-peer", "exit code 3", ("almost", "the end"), "/run/peer/logs/peer.log", 1.25)
    assert verdict == Failed("peer: exit code 3", (fault,), ())


def test_lost_hosts_stand_beside_failed_processes() -> None:
    health, _ = _begun().lose("h-other", "no answer for 10 s", 5.0)
    health, _ = health.observe([Observation("peer", alive=False, exit=Exit(signal=9), died_ago=1.0)], 20.0)
    verdict = health.verdict(20.0, LIMITS)
    assert isinstance(verdict, Failed)
    assert verdict.lost == (HostFault("h-other", "no answer for 10 s"),)
    assert [fault.process for fault in verdict.faults] == ["peer"]
    assert [it.process for it in health.failures] == ["other", "peer"]


def test_who_is_missing_comes_with_phase_and_last_line() -> None:
    health, _ = _begun().observe(
        [
            Observation("lead", alive=True, milestones=("kv-cache",), log_bytes=9, line="KV Cache is allocated."),
            Observation("peer", alive=True, milestones=("memory-pool",), log_bytes=9, line="Memory pool end."),
        ],
        1.0,
    )
    assert health.verdict(2.0, LIMITS) == Waiting(
        (
            Missing("lead", "h-lead", "KV cache allocated", "KV Cache is allocated."),
            Missing("other", "h-other", "started", ""),
        )
    )
    assert health.counts() == {"loading": 1, "ready": 1, "starting": 1}
    assert health.ready(["peer"])
    assert not health.ready(["peer", "other"])


def test_rows_of_strangers_are_passed_over() -> None:
    before = _begun()
    assert before.observe([Observation("stranger", alive=False)], 1.0) == (before, [])


def test_a_set_that_does_not_exist_is_our_own_fault() -> None:
    with pytest.raises(KeyError, match="nothing-like-it"):
        DeploymentHealth.begin(plan_of({"lead": {"milestones": "nothing-like-it"}}, LIMITS), 0.0)


def test_stopping_on_purpose_is_no_failure() -> None:
    change = _begun().processes["peer"].stopped(3.0)
    assert (change.health.state, change.transitions[0].after) == ("stopped", "stopped")
    after = change.health.observe(Observation("peer", alive=False, exit=Exit(signal=15)), 4.0)
    assert after.health == change.health


def test_a_log_that_was_cut_counts_on_from_its_new_size() -> None:
    seen = _begun().processes["peer"].observe(Observation("peer", alive=True, log_bytes=900, line="a"), 1.0).health
    cut = seen.observe(Observation("peer", alive=True, log_bytes=10, line="b"), 2.0)
    assert cut.progress
    assert cut.health.observe(Observation("peer", alive=True, log_bytes=20, line="c"), 3.0).progress


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        ("[2026-11-29 12:07:43] waiting", "[2026-11-29 12:08:43] waiting", False),
        ("[2026-11-29 12:07:43 TP0] waiting", "[2026-11-29 12:07:43 TP0] waiting for 2", True),
        ("[W1129 11:50:32.67 socket.cpp:207] no route", "[W1129 11:50:39.99 socket.cpp:207] no route", False),
        ("\x1b[2m2026-11-29 12:37:54\x1b[0m still here", "\x1b[2m2026-11-29 12:38:54\x1b[0m still here", False),
        ("Loading shards: 3%", "Loading shards: 4%", True),
        ("the same unfinished line", "the same unfinished line", True),
    ],
)
def test_the_same_words_with_a_newer_time_stamp_are_nothing_new(before: str, after: str, *, new: bool) -> None:
    assert says_something_new(before, after) is new


def test_a_row_of_the_wire_is_read() -> None:
    row = {
        "process": "lead",
        "alive": False,
        "exit": {"signal": 9},
        "died_ago": 0.5,
        "milestones": ["arguments"],
        "log_bytes": 12,
        "line": "bye",
        "http": {"error": "refused", "seconds": 0.1},
        "pids": [11, 12],
        "tail": ["hello", "bye"],
    }
    assert Observation.from_json(row) == Observation(
        "lead",
        alive=False,
        exit=Exit(signal=9),
        died_ago=0.5,
        milestones=("arguments",),
        log_bytes=12,
        line="bye",
        http=HttpAnswer(error="refused"),
        pids=2,
        tail=("hello", "bye"),
    )


def test_nulls_of_the_wire_are_defaults() -> None:
    names = ("exit", "died_ago", "milestones", "log_bytes", "line", "http", "pids", "tail")
    row = {"process": "lead", "alive": True, **dict.fromkeys(names)}
    assert Observation.from_json(row) == Observation("lead", alive=True)


def test_states_have_one_home() -> None:
    assert events.State == states.State
