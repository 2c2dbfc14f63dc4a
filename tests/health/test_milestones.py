"""Milestones against real log lines, and the rules of the data file itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from sgdeploy.engine.milestones import Milestone, MilestoneSet, MilestoneState, milestone_sets
from sgdeploy.health.states import State

LOGS = Path(__file__).parent / "logs"

LOADED = ["arguments", "ranks-begin", "ranks-end", "weights-begin", "weights-end", "kv-cache", "memory-pool"]

EXPECTED = {
    "engine-0.5.23-one-node": ("engine", [*LOADED, "http-up", "warmup-answer", "ready-line"]),
    "engine-0.5.23-two-nodes-leader": ("engine", [*LOADED, "http-up", "warmup-answer", "ready-line"]),
    "engine-0.5.23-two-nodes-follower": ("engine-follower", [*LOADED, "dummy-http-up"]),
    "engine-0.5.23-prefill": (
        "engine",
        [*LOADED, "http-up", "pd-warmup-begin", "warmup-answer", "pd-warmup-end", "ready-line"],
    ),
    "engine-older-wording": (
        "engine",
        [*LOADED, "graphs-begin", "graphs-end", "http-up", "pd-warmup-begin", "pd-warmup-end", "ready-line"],
    ),
    "router-0.3.2": ("router", ["router-begin", "workers-asked", "routing"]),
}


def _lines(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8").splitlines()


def _reached(kind: MilestoneSet, lines: list[str]) -> list[str]:
    """Search as the node does: each milestone once, in order of appearance."""
    found: list[str] = []
    for line in lines:
        found += [n for n, pattern in kind.wire() if n not in found and re.search(pattern, line)]
    return found


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_good_start_reaches_every_milestone_in_order(name: str) -> None:
    kind, expected = EXPECTED[name]
    milestones = milestone_sets()[kind]
    reached = _reached(milestones, _lines(name))
    assert reached == expected
    assert milestones.load_passed(reached)
    assert milestones.ready_line(reached)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_log_counts_as_loaded_from_the_memory_pool_on_only(name: str) -> None:
    kind, expected = EXPECTED[name]
    milestones = milestone_sets()[kind]
    steps = [milestones.load_passed(expected[:count]) for count in range(len(expected) + 1)]
    first = expected.index(milestones.loaded) + 1
    assert steps == [count >= first for count in range(len(expected) + 1)]


def test_a_ready_line_alone_is_no_proof_of_the_load() -> None:
    engine = milestone_sets()["engine"]
    assert engine.ready_line({"ready-line"})
    assert not engine.load_passed({"arguments", "ready-line"})
    assert engine.load_passed({"http-up", "ready-line"})


def test_the_furthest_milestone_goes_by_order_and_not_by_time() -> None:
    engine = milestone_sets()["engine"]
    furthest = engine.furthest(["memory-pool", "weights-begin", "of another version"])
    assert furthest is not None
    assert (furthest.name, furthest.phase, furthest.state) == ("memory-pool", "memory pool set up", "loading")
    assert engine.furthest([]) is None


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("engine", '[2026-11-29 12:06:53] INFO:     127.0.0.1:52436 - "GET /health HTTP/1.1" 503 Service Unavailable'),
        ("engine", '[2026-11-29 12:06:53] INFO:     127.0.0.1:52426 - "GET /model_info HTTP/1.1" 200 OK'),
        ("engine", "[2026-11-29 11:51:03] Health check failed. Server couldn't get a response from detokenizer for"),
        (
            "engine-follower",
            "[W1129 12:40:54.19 TCPStore.cpp:340] [c10d] TCP client failed to connect - retrying (try=0",
        ),
        ("router", next(line for line in _lines("router-0.3.2") if "/readiness" in line)),
        ("router", next(line for line in _lines("router-0.3.2") if "Step retrying" in line)),
    ],
)
def test_answers_to_probes_and_repeated_attempts_are_noise(kind: str, line: str) -> None:
    assert milestone_sets()[kind].is_noise(line)


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-29 12:06:52] Load weight begin. avail mem=21.68 GB",
        "Multi-thread loading shards:  12% Completed | 20/163",
        '[2026-11-29 11:50:41] INFO:     127.0.0.1:46576 - "POST /generate HTTP/1.1" 200 OK',
        "[2026-11-29 11:50:42 TP0] Prefill batch, #new-seq: 1, #new-token: 1",
        "",
    ],
)
def test_work_is_no_noise(line: str) -> None:
    assert not milestone_sets()["engine"].is_noise(line)


def test_an_answer_to_a_warm_up_that_failed_is_no_milestone() -> None:
    line = '[2026-11-29 11:50:41] INFO:     127.0.0.1:46576 - "POST /generate HTTP/1.1" 500 Internal Server Error'
    assert _reached(milestone_sets()["engine"], [line]) == []


def test_patterns_are_plain_enough_for_an_old_python_on_the_node() -> None:
    """No groups that came after 3.7, no anchors that a chunk border could break, ASCII only."""
    for kind in milestone_sets().values():
        for _, pattern in kind.wire():
            assert pattern.isascii()
            assert not re.search(r"\(\?>|[*+?}]\+|\\A|\\Z", pattern)


def test_states_of_milestones_are_states_of_processes() -> None:
    assert set(get_args(MilestoneState)) < set(get_args(State))


def _set(**changes: Any) -> dict[str, Any]:
    one = {"name": "one", "pattern": "1", "phase": "one", "state": "loading"}
    return {"loaded": "one", "ready": None, "milestones": [one], **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loaded": "two"}, "two is not a milestone of the set"),
        ({"ready": "two"}, "two is not a milestone of the set"),
        ({"milestones": []}, "at least 1 item"),
        ({"noise": ["("]}, "not a regular expression"),
    ],
)
def test_a_broken_set_is_refused(changes: dict[str, Any], message: str) -> None:
    assert MilestoneSet.model_validate(_set()).loaded == "one"
    with pytest.raises(ValidationError, match=message):
        MilestoneSet.model_validate(_set(**changes))


def test_a_broken_pattern_and_a_name_twice_are_refused() -> None:
    with pytest.raises(ValidationError, match="not a regular expression"):
        Milestone(name="one", pattern="[", phase="", state="loading")
    one = _set()["milestones"][0]
    with pytest.raises(ValidationError, match="share a name"):
        MilestoneSet.model_validate(_set(milestones=[one, one]))
