"""Advice on servers that work: each figure with what it means and the setting to change."""

from __future__ import annotations

import pytest

from sgdeploy.diagnose.advice import Advice, advise
from tests.diagnose.cases import LOGS, at

TOLD = "[2026-01-01 10:00:00] server_args={'max_running_requests': 64, 'mem_fraction_static': 0.8}"


def decode(seconds: int, *, usage: float = 0.5, queue: int = 50, running: int = 20) -> str:
    return at(
        seconds,
        f"Decode batch. #running-req: {running}, #token: 28, token usage: {usage:.2f}, cuda graph: True, "
        f"gen throughput (token/s): 781.89, #queue-req: {queue}",
    )


def told(*lines: str, metrics: str = "") -> list[Advice]:
    return advise("demo/native/n0", "h1", [TOLD, *lines], metrics)


@pytest.mark.parametrize(
    ("lines", "figure", "setting"),
    [
        (
            [decode(s) for s in range(5)],
            "token usage 0.50, 50 requests wait",
            "--schedule-conservativeness to 0.3 (now 1.0)",
        ),
        ([decode(s, queue=0) for s in range(5)], "0 requests wait", "concurrency of the clients"),
        ([decode(s, running=64) for s in range(5)], "64 run", "raise --max-running-requests (now 64)"),
        ([decode(s, usage=0.97, queue=2500) for s in range(5)], "2500 requests wait", "add instances"),
        (
            [at(s * 10, "KV cache pool is full. Retract requests. #retracted_reqs: 1") for s in range(10)],
            "10 retractions in 2 min",
            "--schedule-conservativeness to 1.3",
        ),
        (
            [
                at(s, "Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.9 -> 1.0")
                for s in range(5)
            ],
            "5 retractions",
            "lower --max-running-requests",
        ),
        (
            [at(1, "max_total_num_tokens=9, context_len=8, available_gpu_mem=14.20 GB")],
            "14.2 GB",
            "raise --mem-fraction-static (now 0.8)",
        ),
        (
            [at(1, "max_total_num_tokens=9, context_len=8, available_gpu_mem=2.10 GB")],
            "2.1 GB",
            "lower --mem-fraction-static (now 0.8)",
        ),
        (
            [at(1, "max_total_num_tokens=64, x=1, context_len=16384, available_cpu_mem=20 GB")],
            "KV pool of 64",
            "--max-total-tokens",
        ),
        ([at(s, "Compiling kernel fused_moe_3") for s in range(30)], "30 lines", "kernel cache folder"),
    ],
)
def test_a_figure_that_asks_for_a_change(lines: list[str], figure: str, setting: str) -> None:
    (found,) = told(*lines)
    assert figure in found.figure
    assert setting in found.setting
    assert found.meaning


@pytest.mark.parametrize(
    "lines",
    [
        [decode(s, usage=0.95, queue=300) for s in range(10)],
        [decode(1)],
        [at(s * 90, "KV cache pool is full. Retract requests. #retracted_reqs: 1") for s in range(6)],
        [at(1, "max_total_num_tokens=900, context_len=800, available_gpu_mem=6.50 GB")],
        [at(1, "max_total_num_tokens=900, context_len=800, available_cpu_mem=60.50 GB")],
    ],
)
def test_figures_as_they_should_be_ask_for_nothing(lines: list[str]) -> None:
    assert told(*lines) == []


def test_metrics_count_as_the_latest_figures() -> None:
    page = "\n".join(
        f'sglang:{name}{{model_name="m"}} {value}'
        for name, value in (
            ("num_running_reqs", 20.0),
            ("token_usage", 0.2),
            ("gen_throughput", 5.0),
            ("num_queue_reqs", 9.0),
        )
    )
    (found,) = told(decode(1), decode(2), metrics=page)
    assert "3 lines" in found.figure
    assert told(decode(1), decode(2)) == []


def test_what_an_earlier_run_wrote_does_not_count() -> None:
    assert advise("p", "h", [*(decode(s, queue=0) for s in range(9)), TOLD], "") == []


def test_a_real_log_is_understood() -> None:
    (found,) = advise("n0", "", (LOGS / "kv-cache-too-small" / "n0.log").read_text().splitlines())
    assert found.figure == "KV pool of 64 tokens, context length 16384"
