"""One simulated server: what it says while it starts, and what it answers when it is up."""

from __future__ import annotations

import http.client
import json
import socket
import time
from pathlib import Path

import pytest

from .kit import READY, Rank, Ranks, free_port, processes, until


def test_endpoints_over_time(ranks: Ranks) -> None:
    """Refused, then 503 beside a 200 from /model_info, then 200 after one second: the table of the real engine."""
    rank = ranks.start(SGDEPLOY_REHEARSE_SPEED="0.5", SGDEPLOY_REHEARSE_HEALTH_SECONDS="1.0")
    seen: list[tuple[int, int]] = []

    def is_well() -> bool:
        health = rank.ask("/health")
        pair = (health.status, rank.ask("/model_info").status)
        if pair not in seen:
            seen.append(pair)
        if health.status == 200:
            assert 1.0 <= health.seconds < 1.5
        elif health.status == 503:
            assert not health.body
            assert health.seconds < 0.5
        return health.status == 200

    until("a 200 from /health", is_well)
    assert [pair for pair in seen if pair != (0, 200)] == [(0, 0), (503, 200), (200, 200)]


def test_log_lines_come_in_the_order_of_the_real_engine(server: Rank) -> None:
    lines = [
        "UserWarning",
        "server_args={",
        "Using default HuggingFace chat template",
        "Init parallel begin.",
        "Init parallel ends. elapsed=",
        "Load weight begin. avail mem=",
        "Load weight end. elapsed=",
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 8192",
        "Memory pool end. avail mem=",
        "max_total_num_tokens=8192",
        "Engine startup timings (s): load_weight=",
        "Started server process [",
        "Application startup complete.",
        f"Uvicorn running on http://127.0.1.1:{server.port} (Press CTRL+C to quit)",
        '"POST /generate HTTP/1.1" 200 OK',
        READY,
    ]
    places = [server.log.index(line) for line in lines]
    assert places == sorted(places)


def test_without_warm_up_there_is_no_503(ranks: Ranks) -> None:
    rank = ranks.start("--skip-server-warmup")
    answers: list[int] = []

    def answered() -> bool:
        answers.append(rank.ask("/health").status)
        return answers[-1] != 0

    until("an answer", answered)
    assert answers[-1] == 200
    rank.sees(READY)


def test_paths(server: Rank) -> None:
    assert server.ask("/health").status == 200
    for path in ("/", "/health_generate", "/ping", "/ready", "/server_info", "/get_model_info", "/get_server_info"):
        assert server.ask(path).status == 200, path
    for path in ("/liveness", "/readiness", "/metrics", "/v1/models/other"):
        assert server.ask(path).status == 404, path
    assert server.ask("/generate").status == 405
    assert server.ask("/health", {}).status == 405
    assert server.ask("/flush_cache").status == 200
    assert server.ask("/model_info").data["model_path"] == "/models/tiny"
    assert server.ask("/v1/models").data["data"][0]["id"] == "/models/tiny"
    server.sees('"GET /liveness HTTP/1.1" 404 Not Found')


def test_api_key_guards_all_but_probes_and_metrics(ranks: Ranks, tmp_path: Path) -> None:
    config = tmp_path / "secret.yaml"
    config.write_text(
        "# a comment\napi-key: 'hush-hush'\nserved_model_name: tiny\nskip-server-warmup: true\nenable-metrics: true\n"
    )
    rank = ranks.start("--config", str(config)).sees(READY)
    assert rank.ask("/health").status == 200
    assert rank.ask("/ready").status == 200
    assert rank.ask("/metrics").status == 200
    assert rank.ask("/ping").status == 401
    assert rank.ask("/model_info").status == 401
    assert rank.ask("/v1/completions", {"prompt": "x"}).status == 401
    key = {"Authorization": "Bearer hush-hush"}
    assert rank.ask("/v1/models", headers=key).data["data"][0]["id"] == "tiny"
    assert "'api_key': 'hush-hush'" in rank.log


def test_completions_count_their_tokens(server: Rank) -> None:
    answer = server.ask("/v1/completions", {"prompt": "hello big world", "max_tokens": 5}).data
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert [answer["usage"][name] for name in counts] == [3, 5, 8]
    assert answer["model"] == "/models/tiny"
    choice = answer["choices"][0]
    assert len(choice["text"].split()) == 5
    assert choice["finish_reason"] == "length"
    again = server.ask("/v1/completions", {"prompt": "hello big world", "max_tokens": 500}).data
    assert again["choices"][0]["text"].startswith(choice["text"])
    assert again["choices"][0]["finish_reason"] == "stop"
    chat = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}).data
    assert chat["object"] == "chat.completion"
    assert len(chat["choices"][0]["message"]["content"].split()) == 2
    native = server.ask("/generate", {"text": "hi", "sampling_params": {"max_new_tokens": 3}}).data
    assert native["meta_info"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/completions", {"prompt": "hello"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]}),
    ],
)
def test_a_stream_adds_up_to_the_whole(server: Rank, path: str, asked: dict[str, object]) -> None:
    whole = server.ask(path, {**asked, "max_tokens": 4}).data["choices"][0]
    body = server.ask(path, {**asked, "max_tokens": 4, "stream": True}).body.decode()
    events = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    choices = [json.loads(event)["choices"][0] for event in events]
    text = "".join(choice["text"] if "text" in choice else choice["delta"]["content"] for choice in choices)
    assert text == (whole["text"] if "text" in whole else whole["message"]["content"])
    assert [choice["finish_reason"] for choice in choices] == [None] * 4 + ["length"]


def test_bad_requests_do_not_hurt(server: Rank) -> None:
    assert server.ask("/v1/completions", b"{not json").status == 400
    assert server.ask("/v1/completions", {"max_tokens": 3}).status == 400
    assert server.ask("/v1/completions", ["list"]).status == 400
    assert server.ask("/v1/completions", {"prompt": "x", "max_tokens": 0}).status == 400
    with socket.create_connection((server.host, server.port), 10) as probe:
        probe.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")  # a router's gRPC probe
        assert probe.recv(1000).startswith(b"HTTP/1.1 400")
    server.sees("WARNING:  Invalid HTTP request received.")
    assert server.ask("/health").status == 200


def test_connections_are_kept_alive(server: Rank) -> None:
    client = http.client.HTTPConnection(server.host, server.port, timeout=10)
    ports = set()
    for _ in range(3):
        client.request("GET", "/model_info")
        assert client.getresponse().read()
        assert client.sock is not None
        ports.add(client.sock.getsockname()[1])
    client.close()
    assert len(ports) == 1


def test_children_rewrite_their_titles_and_wipe_their_environment(ranks: Ranks) -> None:
    wiped = ranks.start("--tp", "2").sees(READY)
    assert set(wiped.titles()) == {"sglang::scheduler_TP0", "sglang::scheduler_TP1", "sglang::detokenizer"}
    kept = ranks.start(SPT_NOENV="1").sees(READY)
    for rank, marked in ((wiped, False), (kept, True)):
        for pid in rank.titles().values():
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            assert (ranks.mark.encode() in environ) is marked
            assert Path(f"/proc/{pid}/comm").read_text().startswith("sglang::")
    assert "engine.py" in Path(f"/proc/{wiped.popen.pid}/cmdline").read_text()


def test_prefill_says_so_and_listens_for_decode(ranks: Ranks) -> None:
    port = free_port("127.0.1.1")
    flags = ("--disaggregation-mode", "prefill", "--disaggregation-bootstrap-port", str(port))
    rank = ranks.start(*flags).sees(READY)
    assert f"CommonKVBootstrapServer started successfully on 127.0.1.1:{port}" in rank.log
    assert rank.log.index("Start of pd disaggregation warmup") < rank.log.index("End of disaggregation warmup")
    assert Rank(rank.popen, rank.host, port, rank.path).ask("/health").status == 200
    assert rank.ask("/server_info").data["disaggregation_mode"] == "prefill"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--nnodes", "two"], "argument --nnodes: invalid int value: 'two'"),
        (["--api-key"], "argument --api-key: expected one argument"),
        (["--config", "/nowhere.yaml"], "argument --config: "),
    ],
)
def test_what_the_parser_refuses_ends_with_2(ranks: Ranks, flags: list[str], reason: str) -> None:
    rank = ranks.start(*flags)
    assert rank.ended() == 2
    assert f"error: {reason}" in rank.log.splitlines()[-1]


def test_it_does_nothing_while_nothing_happens(ranks: Ranks, server: Rank) -> None:
    def ticks() -> int:
        left = ranks.left()
        return sum(int(fields[11]) + int(fields[12]) for pid, fields in processes() if pid in left)

    assert server.titles()
    before = ticks()
    time.sleep(0.3)  # the claim is about a span of time, not about an event
    assert ticks() - before <= 1
