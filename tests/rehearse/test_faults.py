"""Failures on demand: each mode, at the ranks it was asked for, with the marks the real failure leaves."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .kit import READY, Ranks, title_of, until

KILLED = -signal.SIGKILL


@pytest.mark.parametrize(
    ("fault", "code", "line"),
    [
        ("die@start", KILLED, "UserWarning"),
        ("die@load", KILLED, "Load weight begin"),
        ("die@warmup", KILLED, "Uvicorn running"),
        ("die@serve", KILLED, READY),
        ("exit3@load", 3, "RuntimeError: rehearsed failure, exit code 3"),
        ("crash@init", KILLED, "Scheduler hit an exception: Traceback"),
        ("crash@serve", KILLED, "Sleeping 5 seconds before crash diagnostics"),
        ("rendezvous-taken", KILLED, "name: EADDRINUSE"),
        ("oom@load", 1, "Rank 0 scheduler died during initialization (exit code: -9)"),
        ("port-taken", 3, "error while attempting to bind on address"),
        ("unknown-flag=--attention-backnd", 2, "sglang serve: error: unrecognized arguments: --attention-backnd"),
    ],
)
def test_how_it_ends(ranks: Ranks, fault: str, code: int, line: str) -> None:
    rank = ranks.start(SGDEPLOY_REHEARSE_FAIL=fault)
    assert rank.ended() == code
    assert line in rank.log
    until("nothing to be left", lambda: not ranks.left())


def test_a_selector_hits_one_rank_only(ranks: Ranks) -> None:
    cluster = ranks.cluster(2, 2, SGDEPLOY_REHEARSE_FAIL="exit7@load:n1r0,slow-load=0.2:n0")
    assert cluster[2].ended() == 7
    assert [rank.ended() for rank in (cluster[0], cluster[1], cluster[3])] == [KILLED] * 3
    cluster[0].sees("Connection reset by peer")
    assert not any("Load weight end" in rank.log for rank in cluster[:2])


def test_a_follower_that_hangs_in_load_holds_all_up(ranks: Ranks) -> None:
    leader, other, hung = ranks.cluster(3, 1, SGDEPLOY_REHEARSE_FAIL="hang@load:n2")
    leader.sees("Load weight end")
    other.sees("Load weight end")
    hung.sees("Load weight begin")
    assert leader.ask("/model_info").status == 0
    assert "KV Cache" not in leader.log + other.log
    assert all(rank.popen.poll() is None for rank in (leader, other, hung))


@pytest.mark.parametrize("node", [0, 1])
def test_a_rank_that_hangs_in_warm_up_leaves_the_leader_at_503(ranks: Ranks, node: int) -> None:
    leader, follower = ranks.cluster(2, 1, SGDEPLOY_REHEARSE_FAIL=f"hang@warmup:n{node}")
    leader.sees("Uvicorn running on")
    follower.sees("Dummy health")
    assert [leader.ask(path).status for path in ("/health", "/model_info")] == [503, 200]
    assert follower.ask("/health").status == 200
    assert READY not in leader.log


def test_a_follower_that_never_joins(ranks: Ranks) -> None:
    leader, absent = ranks.cluster(2, 1, "--dist-timeout", "1", SGDEPLOY_REHEARSE_FAIL="never-join:n1")
    assert leader.ended() == KILLED
    leader.sees("1/2 clients joined")
    assert absent.popen.poll() is None


def test_green_but_dead(ranks: Ranks) -> None:
    """The scheduler is gone and the HTTP port says 200 all the same; the leader pays for it."""
    leader, follower = ranks.cluster(2, 1, SGDEPLOY_REHEARSE_FAIL="green-but-dead@serve:n1")
    assert leader.ended() == KILLED
    leader.sees("Connection reset by peer")
    assert follower.ask("/health").status == 200
    assert follower.popen.poll() is None
    assert not follower.titles()


def test_no_tokens(ranks: Ranks) -> None:
    rank = ranks.start(SGDEPLOY_REHEARSE_FAIL="no-tokens").sees(READY)
    answer = rank.ask("/v1/completions", {"prompt": "x", "max_tokens": 4})
    assert answer.status == 200
    assert answer.data["usage"]["completion_tokens"] == 0
    assert not answer.data["choices"][0]["text"]


def test_401(ranks: Ranks) -> None:
    rank = ranks.start(SGDEPLOY_REHEARSE_FAIL="401").sees(READY)
    assert [rank.ask(path).status for path in ("/health", "/model_info")] == [401, 401]


def test_slow_load(ranks: Ranks) -> None:
    rank = ranks.start(SGDEPLOY_REHEARSE_FAIL="slow-load=0.6").sees("Load weight end")
    elapsed = float(rank.log.partition("Load weight end. elapsed=")[2].partition(" s")[0])
    assert elapsed >= 0.6


def test_wedge(ranks: Ranks) -> None:
    rank = ranks.start(SGDEPLOY_REHEARSE_FAIL="wedge@serve", SGLANG_HEALTH_CHECK_TIMEOUT="0.3").sees(READY)
    until("a 503 from /health", lambda: rank.ask("/health").status == 503)
    rank.sees("Health check failed.")
    assert rank.ask("/model_info").status == 200
    rank.popen.send_signal(signal.SIGTERM)
    assert rank.ended() == 0


def test_escape_leaves_tree_and_session(ranks: Ranks) -> None:
    rank = ranks.start(SGDEPLOY_REHEARSE_FAIL="escape@load", SPT_NOENV="1").sees(READY)

    def strays() -> list[int]:
        return [pid for pid in ranks.left() if title_of(pid) == "sglang::escaped"]

    until("the escaped process", lambda: bool(strays()))
    assert strays()[0] not in rank.titles().values()
    rank.popen.send_signal(signal.SIGTERM)
    assert rank.ended() == 0
    assert ranks.left() == set(strays())


@pytest.mark.parametrize(("mode", "code"), [("die", KILLED), ("exit4", 4), ("crash", KILLED), ("oom", 0)])
def test_a_file_fails_a_running_rank(ranks: Ranks, tmp_path: Path, mode: str, code: int) -> None:
    leader, follower = ranks.cluster(2, 1, SGDEPLOY_REHEARSE_CONTROL=str(tmp_path))
    leader.sees(READY)
    trigger = tmp_path / "1-0"
    trigger.write_text(mode)
    until("the control file to be read", lambda: not trigger.exists())
    assert follower.ended() == code
    assert leader.ended() == KILLED


def test_a_mistyped_failure_is_refused(ranks: Ranks) -> None:
    for text in ("dye@load", "die@lunch", "die@load:x3"):
        rank = ranks.start(SGDEPLOY_REHEARSE_FAIL=text)
        assert rank.ended() == 2
        assert f"SGDEPLOY_REHEARSE_FAIL: cannot read {text}" in rank.log
