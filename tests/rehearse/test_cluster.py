"""Several simulated ranks: rendezvous, who says what, signals, and what the death of one does to the others."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .kit import READY, Rank, Ranks, free_port, processes, until

GREEN = "Dummy health check server started in background thread at"


def ready(cluster: list[Rank]) -> list[Rank]:
    for follower in cluster[1:]:
        follower.sees(GREEN)
    cluster[0].sees(READY)
    return cluster


def is_open(host: str, port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex((host, port)) == 0


@contextmanager
def stranger(host: str, port: int, answer: bytes = b"") -> Iterator[None]:
    """Hold a port as somebody else would: silent, or with one answer for everybody."""
    with socket.create_server((host, port)) as sock:
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    client, _ = sock.accept()
                except OSError:
                    return
                held.append(client)
                if answer:
                    client.recv(1000)
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            sock.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for client in held:
                client.close()


def test_rank_launch(ranks: Ranks) -> None:
    """Each process is one rank; rank 0 of node 0 serves, the others answer a bare health on their own port."""
    leader, *followers = ready(ranks.cluster(2, 2, "--enable-dp-attention", "--dp-size", "2", "--ep-size", "4"))
    assert set(leader.titles()) == {"sglang::scheduler_DP0_TP0_EP0", "sglang::detokenizer"}
    assert [list(rank.titles()) for rank in followers] == [
        ["sglang::scheduler_DP0_TP1_EP1"],
        ["sglang::scheduler_DP1_TP2_EP2"],
        ["sglang::scheduler_DP1_TP3_EP3"],
    ]
    for rank in followers:
        assert " TP" in rank.log
        assert [rank.ask(path).status for path in ("/ping", "/health", "/health_generate")] == [200] * 3
        assert [rank.ask(path).status for path in ("/model_info", "/v1/models", "/ready", "/metrics")] == [404] * 4
        assert READY not in rank.log
        assert "GET /" not in rank.log
    assert leader.ask("/health").status == 200
    assert leader.ask("/v1/completions", {"prompt": "x"}).status == 200


def test_node_launch_has_a_scheduler_per_rank(ranks: Ranks) -> None:
    meet = f"127.0.1.1:{free_port('127.0.1.1')}"
    flags = ("--nnodes", "2", "--tp", "2", "--pp-size", "2", "--dist-init-addr", meet)
    nodes = [ranks.start(*flags, "--node-rank", str(n), host=f"127.0.1.{n + 1}") for n in range(2)]
    ready(nodes)
    assert set(nodes[0].titles()) == {
        "sglang::scheduler_PP0_TP0",
        "sglang::scheduler_PP0_TP1",
        "sglang::detokenizer",
    }
    assert set(nodes[1].titles()) == {"sglang::scheduler_PP1_TP0", "sglang::scheduler_PP1_TP1"}


def test_a_late_follower_is_waited_for(ranks: Ranks) -> None:
    meet = f"127.0.1.1:{free_port('127.0.1.1')}"
    flags = ("--nnodes", "2", "--tp", "2", "--dist-init-addr", meet)
    leader = ranks.start(*flags).sees("Init parallel begin.")
    until("the rendezvous port", lambda: is_open("127.0.1.1", int(meet.rpartition(":")[2])))
    assert leader.ask("/model_info").status == 0
    assert "Load weight begin" not in leader.log
    ranks.start(*flags, "--node-rank", "1", host="127.0.1.2").sees(GREEN)
    leader.sees(READY)


def test_a_follower_that_never_comes(ranks: Ranks) -> None:
    """The leader gives up after --dist-timeout; one with another address goes on trying for ever."""
    flags = ("--nnodes", "2", "--tp", "2", "--dist-timeout", "1", "--dist-init-addr")
    lost = ranks.start(*flags, f"127.0.1.9:{free_port('127.0.1.9')}", "--node-rank", "1", host="127.0.1.2")
    leader = ranks.start(*flags, f"127.0.1.1:{free_port('127.0.1.1')}")
    assert leader.ended() == -signal.SIGKILL
    assert "seconds waiting for clients. 1/2 clients joined." in leader.log
    assert "Received sigquit from a child process" in leader.log
    lost.sees("The client socket has timed out after 1000ms while trying to connect to (127.0.1.9, ")
    assert lost.popen.poll() is None


def test_a_follower_ignores_sigterm_and_leaves_after_its_leader(ranks: Ranks) -> None:
    leader, follower = ready(ranks.cluster(2, 1))
    follower.popen.send_signal(signal.SIGTERM)
    follower.sees("waiting for the rank-0 ShutdownReq broadcast")
    assert leader.ask("/health").status == 200
    leader.popen.send_signal(signal.SIGTERM)
    assert leader.ended() == 0
    assert follower.ended() == 0
    leader.sees("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    leader.sees("Gracefully exiting... Remaining number of requests 0.")
    leader.sees(f"Finished server process [{leader.popen.pid}]")
    follower.sees("Scheduler or DataParallelController")
    assert not ranks.left()


def test_sigterm_while_loading_ends_main_and_its_children_at_once(ranks: Ranks) -> None:
    rank = ranks.start(SGDEPLOY_REHEARSE_FAIL="hang@load").sees("Load weight begin")
    until("both children", lambda: len(rank.titles()) == 2)
    rank.popen.send_signal(signal.SIGTERM)
    assert rank.ended() == -signal.SIGTERM
    until("the end of the children", lambda: not ranks.left())


def test_sigterm_while_children_import_leaves_them_behind(ranks: Ranks) -> None:
    """A child that cannot notice the end of main yet never does; the scheduler ends once it has loaded."""
    meet = f"127.0.1.1:{free_port('127.0.1.1')}"
    flags = ("--nnodes", "2", "--tp", "2", "--dist-init-addr", meet)
    rank = ranks.start(*flags, SGDEPLOY_REHEARSE_SPEED="0.2").sees("Using default HuggingFace chat template")
    rank.popen.send_signal(signal.SIGTERM)
    assert rank.ended() == -signal.SIGTERM
    rank.sees("Init parallel begin")
    until("both children", lambda: len(rank.titles()) == 2)
    orphan = rank.titles()["sglang::detokenizer"]
    assert _parent(orphan) != rank.popen.pid
    follower = ranks.start(*flags, "--node-rank", "1", host="127.0.1.2").sees("Load weight end")
    rank.sees("BrokenPipeError: [Errno 32] Broken pipe")
    assert follower.ended() == -signal.SIGKILL
    until("the end of the scheduler", lambda: ranks.left() == {orphan})


def _parent(pid: int) -> int:
    return next(int(fields[1]) for each, fields in processes() if each == pid)


def test_a_request_in_flight_is_served_before_the_leader_leaves(ranks: Ranks) -> None:
    rank = ranks.start("--tp", "2", SGDEPLOY_REHEARSE_DECODE_SECONDS="0.1").sees(READY)
    served: list[int] = []
    asked = {"prompt": "x", "max_tokens": 8}
    client = threading.Thread(target=lambda: served.append(rank.ask("/v1/completions", asked).status))
    client.start()
    until("the request to be worked on", lambda: rank.log.count("Prefill batch") == 2)  # the first was the warm-up
    rank.popen.send_signal(signal.SIGTERM)
    rank.sees("Remaining number of requests 1.")
    assert [rank.ask(path).status for path in ("/health", "/ping", "/ready")] == [503] * 3
    assert rank.ended() == 0
    client.join(10)
    assert served == [200]
    rank.sees("Health check request received during shutdown. Returning 503.")


def test_an_unwell_leader_does_not_wait_for_requests(ranks: Ranks) -> None:
    leader, follower = ready(ranks.cluster(2, 1, SGLANG_HEALTH_CHECK_TIMEOUT="0.2"))
    for pid in follower.titles().values():
        os.kill(pid, signal.SIGSTOP)
    assert leader.ask("/v1/completions", {"prompt": "x"}, limit=0.2).status == -1
    assert leader.ask("/health").status == 503
    leader.popen.send_signal(signal.SIGTERM)
    assert leader.ended() == 0
    leader.sees("Signal SIGTERM received while health check failed. Force exiting.")


def test_death_of_a_follower(ranks: Ranks) -> None:
    """The leader meets a reset, answers nothing for a while, and kills itself; the others follow at once."""
    leader, victim, other = ready(ranks.cluster(3, 1, SGDEPLOY_REHEARSE_SPEED="4"))
    victim.kill_all()
    assert other.ended() == -signal.SIGKILL
    other.sees("Connection closed by peer").sees("Received sigquit from a child process")
    leader.sees("Connection reset by peer").sees("Sleeping 5 seconds before crash diagnostics")
    assert leader.ask("/health", limit=0.3).status == -1
    assert leader.ended() == -signal.SIGKILL
    leader.sees("include_parent=True")
    assert not ranks.left()


def test_death_of_the_leader(ranks: Ranks) -> None:
    leader, follower = ready(ranks.cluster(2, 1))
    leader.kill_all()
    assert follower.ended() == -signal.SIGKILL
    follower.sees("Connection closed by peer")


@pytest.mark.parametrize(
    ("victim", "code", "line"),
    [
        (0, -signal.SIGKILL, "crashed with exit code -9. Triggering SIGQUIT for cleanup..."),
        (1, 0, "terminated with -9"),
    ],
)
def test_death_of_a_scheduler(ranks: Ranks, victim: int, code: int, line: str) -> None:
    """The main process of a leader takes itself down, the one of a follower ends with 0."""
    rank = ready(ranks.cluster(2, 1))[victim]
    os.kill(next(pid for title, pid in rank.titles().items() if "scheduler" in title), signal.SIGKILL)
    assert rank.ended() == code
    rank.sees(line)


def test_a_frozen_follower(ranks: Ranks) -> None:
    """Nobody dies; the leader's health takes its whole limit and says 503, again and again."""
    leader, follower = ready(ranks.cluster(2, 1, SGLANG_HEALTH_CHECK_TIMEOUT="0.5"))
    for pid in follower.titles().values():
        os.kill(pid, signal.SIGSTOP)
    for _ in range(2):
        answer = leader.ask("/health")
        assert answer.status == 503
        assert answer.seconds >= 0.5
    leader.sees("Health check failed. Server couldn't get a response from detokenizer for last 0.5 seconds.")
    assert leader.ask("/v1/completions", {"prompt": "x"}, limit=0.3).status == -1
    assert [leader.ask(path).status for path in ("/ping", "/ready", "/model_info")] == [503, 503, 200]
    assert follower.ask("/health").status == 200
    assert leader.popen.poll() is None
    for pid in follower.titles().values():
        os.kill(pid, signal.SIGCONT)
    until("the leader to be well again", lambda: leader.ask("/health").status == 200)
    assert [leader.ask(path).status for path in ("/ping", "/ready")] == [200, 200]


def test_rendezvous_port_taken(ranks: Ranks) -> None:
    port = free_port("127.0.1.1")
    with stranger("127.0.1.1", port):
        leader = ranks.start("--tp", "2", "--dist-init-addr", f"127.0.1.1:{port}")
        assert leader.ended() == -signal.SIGKILL
    leader.sees(f"port: {port}, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use")


@pytest.mark.parametrize(("answer", "fired"), [(b"HTTP/1.1 200 OK\r\n\r\n", True), (b"HTTP/1.1 404 No\r\n\r\n", False)])
def test_http_port_of_the_leader_taken(ranks: Ranks, answer: bytes, *, fired: bool) -> None:
    """Who answers may be somebody else: with an older engine there, even the ready line is printed."""
    port = free_port("127.0.1.1")
    with stranger("127.0.1.1", port, answer):
        rank = ranks.start(port=str(port), SGDEPLOY_REHEARSE_SPEED="200")
        assert rank.ended() == 3
    rank.sees(f"[Errno 98] error while attempting to bind on address ('127.0.1.1', {port}): address already in use")
    assert (READY in rank.log) is fired
    assert not ranks.left()


def test_http_port_of_a_follower_taken(ranks: Ranks) -> None:
    """Its thread dies, the rank goes on without a health port."""
    meet = f"127.0.1.1:{free_port('127.0.1.1')}"
    port = free_port("127.0.1.2")
    flags = ("--nnodes", "2", "--tp", "2", "--dist-init-addr", meet)
    with stranger("127.0.1.2", port):
        follower = ranks.start(*flags, "--node-rank", "1", host="127.0.1.2", port=str(port))
        leader = ranks.start(*flags).sees(READY)
        follower.sees(f"Dummy health check server stopped at 127.0.1.2:{port}")
        assert leader.ask("/health").status == 200


def test_separate_tokenizer(ranks: Ranks) -> None:
    """The fork's switch: compute ranks open no HTTP port, a tokenizer process is nothing but one."""
    switch = {"SGLANG_ENABLE_TOKENIZER_SEPERATE": "1"}
    compute = ranks.start(**switch, SGLANG_SKIP_HTTP="1").sees("max_total_num_tokens=")
    tokenizer = ranks.start("--skip-server-warmup", **switch, SGLANG_LAUNCH_HTTP_ONLY="1").sees(READY)
    assert tokenizer.ask("/health").status == 200
    assert not tokenizer.titles()
    assert compute.ask("/health").status == 0
    assert compute.popen.poll() is None
