"""What no line says by itself: found by comparing the logs of all ranks and how they ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sgdeploy.diagnose.judge import diagnose
from sgdeploy.health.states import Exit
from tests.diagnose.cases import at, follower, leader, loaded, log, rules_of

TWO = "'nnodes': 2, 'node_rank': {rank}, 'dist_init_addr': '10.0.0.1:5000', 'tp_size': 2, 'pp_size': 1"
L, F = TWO.format(rank=0), TWO.format(rank=1)
RESET = "RuntimeError: [/x/gloo/gloo/transport/tcp/pair.cc:545] Read error [10.0.0.2]:70: Connection reset by peer"


def unanswered(seconds: int, heartbeat: int) -> str:
    return at(
        seconds,
        "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: x. "
        f"last_heartbeat time: 10:{heartbeat // 60:02d}:{heartbeat % 60:02d}",
    )


def test_who_died_without_a_word_is_named_by_who_lost_it() -> None:
    found = diagnose([log("n0", *leader(at(60, "x"), RESET), told=L), log("n1", *follower(), told=F)])
    assert rules_of(found) == [("died-without-a-word", "n1")]
    assert "no last words" in found.findings[0].cause


def test_how_it_ended_is_told_where_it_is_known() -> None:
    found = diagnose(
        [
            log("n0", *leader(at(60, "x"), RESET), told=L, ended=Exit(signal=9), alive=False),
            log("n1", *follower(), told=F, ended=Exit(signal=9), alive=False),
        ]
    )
    assert rules_of(found) == [("died-without-a-word", "n1")]
    assert "SIGKILL" in found.findings[0].cause


def test_a_peer_with_a_cause_of_its_own_did_not_die_silently() -> None:
    oom = at(59, "torch.OutOfMemoryError: CUDA out of memory.", "TP1")
    found = diagnose([log("n0", *leader(at(60, "x"), RESET), told=L), log("n1", *follower(oom), told=F)])
    assert rules_of(found) == [("oom-device", "n1")]
    assert [(each.process, each.rule) for each in found.consequences] == [("n0", "peer-lost")]


def test_a_rank_that_was_frozen_while_they_joined_is_named_by_who_waited_for_it() -> None:
    vain = at(
        41, "torch.distributed.DistStoreError: wait timeout after 40000ms, keys: /default_pg/0//3//cpu//0/1", "TP0"
    )
    begin = at(1, "Init parallel begin.")
    found = diagnose([log("n0", begin, vain, told=L), log("n1", begin, told=F)])
    assert rules_of(found) == [("died-without-a-word", "n1")]
    assert [(each.process, each.rule) for each in found.consequences] == [("n0", "rank-did-not-answer")]
    alive = diagnose([log("n0", begin, vain, told=L, alive=False), log("n1", begin, told=F, alive=True)])
    assert rules_of(alive) == [("rank-did-not-answer", "n0")]


def test_where_all_processes_live_the_network_is_at_fault() -> None:
    found = diagnose(
        [
            log("n0", *leader(at(60, "x"), RESET), told=L, alive=True),
            log("n1", *follower(), told=F, alive=True),
        ]
    )
    assert rules_of(found) == [("cut-off", "n0")]


def test_ranks_that_all_gave_up_on_each_other_waited_in_different_places() -> None:
    waits = (
        "RuntimeError: [/x/gloo/gloo/transport/tcp/unbound_buffer.cc:129] Timed out waiting 60000ms for send operation"
    )
    logs = [log("n0", *loaded(), at(70, waits), told=L), log("n1", *loaded(), at(71, waits), told=F)]
    assert rules_of(diagnose(logs)) == [("waited-for-each-other", "n0")]


def test_a_missing_log_is_asked_for() -> None:
    found = diagnose([log("n0", *leader(at(60, "x"), RESET), told=L)])
    assert rules_of(found) == [("peer-without-log", "n0")]
    assert "node rank 1" in found.findings[0].cause


@pytest.mark.parametrize(
    ("leader_told", "follower_told", "flag"),
    [
        (L, F.replace("10.0.0.1:5000", "10.0.0.1:5001"), "--dist-init-addr"),
        (L, F.replace("'tp_size': 2", "'tp_size': 4"), "--tp"),
        (L, F.replace("'nnodes': 2", "'nnodes': 3"), "--nnodes"),
    ],
)
def test_arguments_that_differ_are_compared(leader_told: str, follower_told: str, flag: str) -> None:
    begin = at(1, "Init parallel begin.")
    found = diagnose([log("n0", begin, told=leader_told), log("n1", begin, told=follower_told)])
    assert found.findings[0].rule == "arguments-differ"
    assert flag in found.findings[0].cause


def test_arguments_in_the_older_form_are_read_as_well() -> None:
    told = "server_args=ServerArgs(tp_size=2, nnodes=2, node_rank={}, dist_init_addr='10.0.0.{}:5000', x=None)"
    begin = at(1, "Init torch distributed begin.")
    found = diagnose([log("a", told.format(0, 1), begin), log("b", told.format(1, 9), begin)])
    assert rules_of(found) == [("arguments-differ", "b")]


def test_two_instances_with_addresses_of_their_own_are_no_difference() -> None:
    other_l, other_f = L.replace("10.0.0.1", "10.0.0.7"), F.replace("10.0.0.1", "10.0.0.7")
    begin = at(1, "Init parallel begin.")
    logs = [log(f"p{n}", begin, told=told) for n, told in enumerate((L, F, other_l, other_f))]
    assert {each.rule for each in diagnose(logs).findings} == {"stopped-midway"}


def test_a_node_rank_given_twice_is_seen() -> None:
    begin = at(1, "Init parallel begin.")
    assert diagnose([log("n0", begin, told=L), log("n1", begin, told=L)]).findings[0].rule == "node-rank-twice"


def test_prefill_and_decode_are_compared() -> None:
    prefill, decode = (
        "'disaggregation_mode': 'prefill', 'page_size': 64",
        "'disaggregation_mode': 'decode', 'page_size': 1",
    )
    found = diagnose([log("p", *leader(), told=prefill), log("d", *leader(), told=decode)])
    assert found.findings[0].rule == "pd-arguments-differ"
    assert "p 64; d 1" in found.findings[0].cause


def test_the_prefill_that_decode_lost_is_named() -> None:
    lost = at(60, "Lost connection with prefill instance (bootstrap_addr: 10.0.0.3:8998), 4 requests affected")
    found = diagnose(
        [
            log("p", *leader(), told="'disaggregation_mode': 'prefill'"),
            log("d", *leader(lost), told="'disaggregation_mode': 'decode'"),
        ]
    )
    assert rules_of(found) == [("died-without-a-word", "p")]
    assert [each.process for each in found.consequences] == ["d"]


def test_a_frozen_follower_is_named_when_busy_is_no_excuse_any_more() -> None:
    busy = [unanswered(seconds, 60) for seconds in (80, 101, 122)]
    quiet = log("n1", *follower(at(58, "x")), told=F)
    assert diagnose([log("n0", *leader(*busy), told=L), quiet]).findings == ()
    found = diagnose([log("n0", *leader(*busy, unanswered(143, 60)), told=L), quiet])
    assert rules_of(found) == [("stuck", "n1")]
    assert "83 s" in found.findings[0].cause


def test_a_server_that_answers_again_was_only_busy() -> None:
    busy = [unanswered(seconds, 60) for seconds in (80, 101, 122, 143)]
    answer = at(150, 'INFO:     10.0.0.9:1 - "GET /health HTTP/1.1" 200 OK')
    assert diagnose([log("n0", *leader(*busy, answer), told=L)]).findings == ()


def test_trouble_that_was_overcome_does_not_count() -> None:
    retry = at(1, "[c10d] The client socket has timed out after 40000ms while trying to connect to (10.0.0.1, 5000).")
    assert diagnose([log("n1", retry, *follower(begin=2), told=F)]).findings == ()


def test_a_failed_warm_up_counts_although_the_ready_line_follows() -> None:
    failed = at(5, "Prefill disaggregation mode warm Up Failed, status code: 400")
    lines = [*loaded(), failed, at(6, "The server is fired up and ready to roll!")]
    found = diagnose([log("p", *lines, told="'disaggregation_mode': 'prefill'")])
    assert rules_of(found) == [("pd-warmup-failed", "p")]


def test_a_bind_error_of_the_server_counts_although_the_ready_line_follows() -> None:
    bind = at(5, "[Errno 98] error while attempting to bind on address ('10.0.0.1', 30000): address already in use")
    found = diagnose([log("n0", *loaded(), bind, at(6, "The server is fired up and ready to roll!"), told=L)])
    assert rules_of(found) == [("http-port", "n0")]


def test_of_several_runs_in_one_file_the_last_counts() -> None:
    crash = [at(1, "torch.OutOfMemoryError: CUDA out of memory."), "Traceback (most recent call last):"]
    second = f"[2026-01-01 11:00:00] server_args={{{L}}}"
    assert diagnose([log("n0", *crash, second, *leader(), told=L)]).findings == ()


def test_the_earliest_cause_over_all_ranks_wins() -> None:
    late = log("n0", at(30, "torch.OutOfMemoryError: CUDA out of memory.", "TP0"), told=L)
    early = log("n1", at(20, "safetensors_rust.SafetensorError: Error while deserializing header", "TP1"), told=F)
    assert rules_of(diagnose([late, early])) == [("weights-damaged", "n1"), ("oom-device", "n0")]


@pytest.mark.parametrize(
    ("ended", "rule"),
    [
        (Exit(signal=9), "died-without-a-word"),
        (Exit(code=137), "died-without-a-word"),
        (Exit(signal=15), "asked-to-stop"),
        (Exit(code=143), "asked-to-stop"),
        (Exit(code=1), "ended-unexplained"),
        (Exit(code=0), "ended-unexplained"),
    ],
)
def test_an_end_that_no_log_explains(ended: Exit, rule: str) -> None:
    found = diagnose([log("n0", *leader(), told=L, ended=ended, alive=False)])
    assert rules_of(found) == [(rule, "n0")]


def test_who_was_asked_to_stop_and_left_is_no_failure() -> None:
    leaving = at(60, "SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    assert diagnose([log("n0", *leader(leaving), told=L, ended=Exit(code=0), alive=False)]).findings == ()


def test_137_is_told_from_memory() -> None:
    lines = [
        at(3, "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge"),
        at(3, "Received sigquit from a child process. It usually means the child failed."),
        at(3, "kill_process_tree called: parent_pid=1, include_parent=True, pid=1"),
    ]
    found = diagnose([log("n0", *lines, told=L, ended=Exit(code=137), alive=False)])
    assert rules_of(found) == [("weights-damaged", "n0")]
    assert [each.rule for each in found.notes] == ["own-kill"]


def test_a_kill_of_a_stranger_is_a_note() -> None:
    kernel = log("kernel", "[ 5.1] Out of memory: Killed process 7 (java) total-vm:1kB", role="kernel")
    found = diagnose([log("n0", *leader(), told=L, alive=True), kernel])
    assert found.findings == ()
    assert [each.rule for each in found.notes] == ["oom-kill"]


def test_the_kernel_of_another_host_does_not_explain_it() -> None:
    kernel = log("kernel", "[ 5.1] Out of memory: Killed process 7 (python3) total-vm:1kB", role="kernel", host="h2")
    killed = log("n0", *leader(), told=L, ended=Exit(signal=9), alive=False, host="h1")
    assert rules_of(diagnose([killed, kernel]))[0] == ("oom-kill", "kernel")


def test_one_that_waits_is_told_to_be_stopped() -> None:
    waits = log("n1", at(1, "Init parallel begin."), told=F)
    fails = log("n0", at(2, "safetensors_rust.SafetensorError: x"), told=L)
    (follows,) = diagnose([fails, waits]).consequences
    assert (follows.rule, follows.process, follows.cause) == ("only-waits", "n1", "n1 only waits for n0")


def test_router_errors_that_answer_polls_are_no_fault() -> None:
    line = "2026-01-01 10:00:00 ERROR http_request{method=GET uri=/readiness status_code=503}: smg::response: failed"
    starts = "2026-01-01 10:00:00  INFO smg::server: Starting router on 10.0.0.1:30400"
    assert diagnose([log("router", starts, line, line)]).findings == ()


def test_a_router_without_workers_follows_from_their_end() -> None:
    starts = "2026-01-01 10:00:00  INFO smg::server: Starting router on 10.0.0.1:30400"
    failed = "2026-01-01 10:00:01  WARN smg: Failed job: type=AddWorker, worker=http://10.0.0.1:30000, error=x"
    killed = log("n0", *leader(), told=L, ended=Exit(signal=9), alive=False)
    found = diagnose([log("router", starts, failed), killed])
    assert rules_of(found) == [("died-without-a-word", "n0")]
    assert [each.process for each in found.consequences] == ["router"]


def test_keys_in_argument_lines_are_not_shown() -> None:
    found = diagnose([log("n0", told=f"{L}, 'api_key': 'geheim'")])
    assert found.findings[0].rule == "stopped-midway"
    assert "geheim" not in str(found.to_json())


def test_the_rank_that_is_furthest_behind_holds_the_others_up() -> None:
    found = diagnose([log("n0", *loaded(), told=L), log("n1", *loaded()[:3], told=F)])
    assert rules_of(found) == [("lags-behind", "n1")]
    assert 'at "loading weights" while they are at "memory pool set up"' in found.findings[0].cause
    assert [(each.process, each.rule) for each in found.consequences] == [("n0", "only-waits")]


def test_a_rank_that_is_known_to_live_may_need_its_time() -> None:
    found = diagnose([log("n0", *loaded(), told=L, alive=True), log("n1", *loaded()[:3], told=F, alive=True)])
    assert found.findings == ()
    assert [(each.process, each.rule) for each in found.notes] == [("n1", "lags-behind")]


def test_who_fell_silent_first_among_those_that_wait_for_each_other_is_named() -> None:
    begin = at(1, "Init parallel begin.")
    retries = [begin, at(30, "NCCL INFO Bootstrap: still here")]
    logs = [log("n0", begin, told=L, alive=True), log("n1", *retries, told=F, alive=True)]
    found = diagnose(logs)
    assert (found.findings, found.consequences) == ((), ())
    assert [(each.process, each.rule) for each in found.notes] == [("n0", "fell-silent")]
    assert "fell silent 29 s before the others" in found.notes[0].cause


def test_where_all_wait_and_none_says_for_whom_that_is_said() -> None:
    begin = at(1, "Init parallel begin.")
    found = diagnose([log("n0", begin, told=L, alive=True), log("n1", begin, told=F, alive=True)])
    assert [each.rule for each in found.notes] == ["all-wait"]
    assert 'all 2 processes of the instance wait at "joining the other ranks"' in found.notes[0].cause


def test_the_earliest_cause_is_found_by_clocks_that_were_put_right() -> None:
    """The clock of the second host is an hour ahead: what it wrote at 11:00 came before 10:00:30 of the first."""
    late = log("n0", at(30, "torch.OutOfMemoryError: CUDA out of memory.", "TP0"), told=L)
    early = "[2026-01-01 11:00:20 TP1] safetensors_rust.SafetensorError: Error while deserializing header"
    ahead = replace(log("n1", early, told=F), ahead=3600.0)
    assert rules_of(diagnose([late, ahead])) == [("weights-damaged", "n1"), ("oom-device", "n0")]


def test_a_health_check_is_timed_by_the_clock_of_its_host() -> None:
    busy = [unanswered(seconds, 60) for seconds in (80, 101, 122, 143)]
    hosts = [log("n0", *leader(*busy), told=L), log("n1", *follower(at(58, "x")), told=F)]
    assert rules_of(diagnose(replace(each, ahead=1800.0) for each in hosts)) == [("stuck", "n1")]


def test_a_rank_that_never_came_is_missed() -> None:
    found = diagnose([log("n0", at(1, "Init torch distributed begin."), told=L)])
    assert rules_of(found) == [("stopped-midway", "n0")]
    assert (
        found.findings[0].cause == 'n0 comes no further than "joining the other ranks"; no log of node rank 1 is here'
    )


def test_a_barrier_that_names_a_rank_points_at_its_node() -> None:
    barrier = at(99, "RuntimeError: Rank 0 timed out; Please check rank 13 logs for faulty rank.", "TP0")
    told = [line.replace("'tp_size': 2", "'tp_size': 16") for line in (L, F)]
    found = diagnose([log("n0", barrier, told=told[0]), log("n1", *loaded()[:3], told=told[1])])
    assert [(each.rule, each.process, each.rank) for each in found.findings] == [("faulty-rank", "n1", "rank 13")]


def test_a_port_that_became_free_in_time_was_no_fault() -> None:
    waits = at(1, "port 25001 is in use. Waiting for 15 seconds for port_base to be available.")
    assert diagnose([log("n0", waits, *leader(), told=L)]).findings == ()


def test_an_error_that_the_server_outlived_does_not_count() -> None:
    error, answer = at(20, "KeyError: 'x'"), at(30, 'INFO:     10.0.0.9:1 - "POST /generate HTTP/1.1" 200 OK')
    assert diagnose([log("n0", *leader(error, answer), told=L)]).findings == ()
    assert rules_of(diagnose([log("n0", *leader(error), told=L)])) == [("exception", "n0")]


def test_a_rank_that_was_behind_when_all_were_told_to_end_is_the_cause() -> None:
    """While they run it may just need its time; nobody waits for it any more."""
    begin = at(1, "Init parallel begin.")
    for stopped in (None, 1767261610.0):
        logs = [
            log("n0", *loaded(), told=L, alive=True),
            log("n1", begin, told=F, alive=True),
        ]
        found = diagnose(replace(each, stopped=stopped) for each in logs)
        assert rules_of(found) == ([] if stopped is None else [("lags-behind", "n1")])
        assert [each.rule for each in found.notes] == (["lags-behind"] if stopped is None else [])
        assert found.stopped == stopped


def test_ranks_that_all_stood_at_one_place_when_they_were_told_to_end_waited_for_each_other() -> None:
    begin = at(1, "Init parallel begin.")
    logs = [log(name, begin, told=told, alive=True) for name, told in (("n0", L), ("n1", F))]
    assert rules_of(diagnose(replace(each, stopped=1.0) for each in logs)) == [("all-wait", "n0")]


def test_a_scheduler_that_ended_well_is_no_failure() -> None:
    for code, found in ((0, []), (-9, [("child-died", "n1")])):
        left = at(60, f"Scheduler or DataParallelController 8609 terminated with {code}")
        assert rules_of(diagnose([log("n0", *leader(), told=L), log("n1", *follower(left), told=F)])) == found
