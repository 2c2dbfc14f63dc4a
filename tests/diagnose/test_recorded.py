"""Logs of real runs (engine 0.5.23 on CPU, router 0.3.2), shortened: causes are named, and none where all went well."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.diagnose.cases import of_folder


@dataclass(frozen=True)
class Case:
    """A recorded case and what must be said of it."""

    folder: str
    rule: str
    process: str
    says: tuple[str, ...]
    line: int | None = None
    follows: tuple[tuple[str, str], ...] = ()


CASES = (
    Case(
        "follower-killed",
        "died-without-a-word",
        "n1",
        ("killed from outside", "host was lost"),
        follows=(("n0", "peer-lost"),),
    ),
    Case(
        "leader-killed-serving", "died-without-a-word", "n0", ("killed from outside",), follows=(("n1", "peer-lost"),)
    ),
    Case("port-block-taken", "port-taken", "n1", ("port 25001", "port_base", "sglang.launch_server", "--node-rank 0")),
    Case("router-metrics-port-taken", "router-metrics-port", "router", ("metrics port", "not its HTTP port")),
    Case("unknown-flag", "unknown-flag", "n0", ("--attention-backnd", "did you mean --attention-backend?")),
    Case("model-path-missing", "model-path-missing", "n0", ("/data/models/DeepSeek-R1-W8A8", "does not exist")),
    Case("weights-file-truncated", "weights-damaged", "n0", ("damaged", "incomplete metadata")),
    Case("port-taken-rendezvous", "port-taken", "n0", ("port 25000", "rendezvous"), follows=(("n1", "only-waits"),)),
    Case(
        "follower-wrong-rendezvous",
        "arguments-differ",
        "n1",
        ("--dist-init-addr", "127.0.1.9:26000", "127.0.1.3:25000"),
        follows=(("n0", "peers-did-not-join"),),
    ),
    Case("out-of-memory-in-load", "oom-kill", "n0", ("out of memory while the KV cache was set up", "pid 22805")),
    Case("kv-cache-too-small", "prompt-over-pool", "n0", ("64 tokens", "16384", "at most 58", "server is well")),
    Case("pd-decode-needs-pinned-memory", "pinned-memory", "decode", ("pinned host memory", "no CUDA")),
    Case(
        "router-no-worker-comes",
        "router-no-worker",
        "router",
        ("127.0.1.3:30300", "127.0.1.1:30300", "does not try again"),
    ),
    Case("router-http-port-taken", "router-http-port", "router", ("HTTP port", "127.0.0.1:30400")),
    Case("more-ranks-than-numa-nodes", "ranks-over-numa-nodes", "n0", ("SGLANG_CPU_OMP_THREADS_BIND", "(1)")),
)
NEXT = {
    "out-of-memory-in-load": "--max-total-tokens (now 40000000)",
    "pd-decode-needs-pinned-memory": "--disaggregation-decode-retraction-backup cpu_tensor",
    "more-ranks-than-numa-nodes": "one core list per rank",
    "model-path-missing": "ls -l /data/models/DeepSeek-R1-W8A8",
    "follower-wrong-rendezvous": "never gives up",
}


@pytest.mark.parametrize("case", CASES, ids=[case.folder for case in CASES])
def test_the_cause_is_named(case: Case) -> None:
    found = of_folder(case.folder)
    assert found.first is not None
    assert (found.first.rule, found.first.process) == (case.rule, case.process)
    assert [part for part in case.says if part not in found.first.cause] == []
    assert NEXT.get(case.folder, "") in found.first.next
    assert found.first.evidence[0].line > 0
    assert set(case.follows) <= {(each.process, each.rule) for each in found.consequences}
    assert [each.rule for each in found.findings[1:]] == []


@pytest.mark.parametrize("folder", ["ok-single", "ok-two-nodes", "ok-pd"])
def test_nothing_is_wrong_where_it_went_well(folder: str) -> None:
    found = of_folder(folder)
    assert (found.findings, found.consequences) == ((), ())
    for seen in found.seen:
        assert seen.phases[0] == "reading arguments"
        assert seen.phases.index("loading weights") < seen.phases.index("memory pool set up")
        assert seen.phases[-1] == ("loaded" if seen.process == "n1" else "says it is ready")


def test_the_rank_is_named_where_one_log_has_several() -> None:
    first = of_folder("more-ranks-than-numa-nodes").first
    assert first is not None
    assert first.rank == "TP1"
    assert first.where == "n0 (TP1)"


def test_the_kernel_and_the_log_are_both_shown() -> None:
    first = of_folder("out-of-memory-in-load").first
    assert first is not None
    assert [each.path for each in first.evidence] == ["kernel.log", "n0.log"]
    assert "exit code: -9" in first.evidence[1].text
