"""The shipped Kunpeng profiles against captured runs of the reference, process by process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgdeploy.errors import ProfileError
from sgdeploy.plan.compile import compile_profile
from sgdeploy.plan.model import Process
from tests.parity.golden import FILES, Captured, differences, kernel_module, kernel_module_hosts, load

HERE = Path(__file__).resolve().parent
SEEDS = sorted(name for name in FILES if name.startswith("seed_"))


def captured_key(process: Captured) -> tuple[str, str, int]:
    return (process.node, process.role, process.port)


def planned_key(process: Process) -> tuple[str, str, int]:
    """Give host, role and HTTP port, which with separate tokenizers a leader does not open."""
    port = process.listens["http"]
    return (process.host, process.role, int(process.argv[process.argv.index("--port") + 1]) if port is None else port)


def test_every_captured_run_has_its_profile() -> None:
    assert SEEDS
    assert sorted(file.stem for file in HERE.glob("seed_*.yaml")) == SEEDS


@pytest.mark.parametrize("name", SEEDS)
def test_the_plan_starts_exactly_the_captured_processes(name: str) -> None:
    """A captured run is one role's; of a deployment with several, the processes of that run's hosts are compared."""
    captured = {captured_key(process): process for process in load(name)}
    hosts = {process.node for process in captured.values()}
    mine = [process for process in compile_profile(HERE / f"{name}.yaml").plan.processes if process.host in hosts]
    planned = {planned_key(process): process for process in mine}
    assert len(planned) == len(mine)
    assert planned.keys() == captured.keys()
    wrong = {planned[key].label: found for key in planned if (found := differences(planned[key], captured[key]))}
    assert wrong == {}
    for key, process in captured.items():
        assert planned[key].rank_in_node == process.rank_in_node
        assert planned[key].node_rank == (None if process.role in {"router", "tokenizer"} else process.node_rank)


@pytest.mark.parametrize("name", SEEDS)
def test_the_kernel_module_is_loaded_as_captured(name: str) -> None:
    hosts = {host.host: host for host in compile_profile(HERE / f"{name}.yaml").plan.hosts}
    for captured in kernel_module_hosts(name):
        (module,) = hosts[captured].modules
        words = ["insmod", module.file, *(f"{key}={value}" for key, value in module.params.items())]
        assert words == kernel_module(name)


@pytest.mark.parametrize("name", SEEDS)
def test_pages_of_a_host_are_the_sum_of_its_ranks(name: str) -> None:
    plan = compile_profile(HERE / f"{name}.yaml").plan
    for host in plan.hosts:
        assert list(host.hugepages) == [write for process in plan.on_host(host.host) for write in process.hugepages]


@pytest.mark.parametrize(
    ("name", "label", "overrides", "expected"),
    [
        (
            "seed_native_1n",
            "native/127.0.1.1/r00",
            ["native.flags.page-size=32", "engine.env.OMP_NUM_THREADS=8"],
            ["extra ('--page-size', '32')", "missing ('--page-size', '64')", "OMP_NUM_THREADS is '8' instead of '1'"],
        ),
        (
            "seed_router_prefill_bucket",
            "router",
            ["router.bucket.adjust_interval_secs=6", "router.cores=229", "router.env.SGLANG_LAUNCH_HTTP_ONLY=0"],
            [
                "extra ('--bucket-adjust-interval-secs', '6')",
                "missing ('--bucket-adjust-interval-secs', '5')",
                "cores (229,) instead of (228,)",
                "SGLANG_LAUNCH_HTTP_ONLY is '0' instead of '1'",
            ],
        ),
        (
            "seed_router_tokenizer_separate",
            "tokenizer/prefill",
            ["router.tokenizers.env.LD_PRELOAD=null", "prefill.rendezvous.port=5040"],
            [
                "extra ('--dist-init-addr', '127.0.1.1:5040')",
                "missing ('--dist-init-addr', '127.0.1.1:5000')",
                "LD_PRELOAD is None instead of '/opt/lib/libpthread_hook.so'",
            ],
        ),
    ],
)
def test_the_comparison_sees_a_difference(name: str, label: str, overrides: list[str], expected: list[str]) -> None:
    plan = compile_profile(HERE / f"{name}.yaml", overrides).plan
    (planned,) = (process for process in plan.processes if process.label == label)
    (captured,) = (process for process in load(name) if captured_key(process) == planned_key(planned))
    assert differences(planned, captured) == expected


FULL_NODES = "but a kunpeng-920f node holds 16, one per compute NUMA node"
REFUSED: dict[str, list[tuple[str, str]]] = {
    "defect_15n_not_divisible": [
        (
            "kunpeng/deepseek-v3-native.yaml",
            "256 ranks (tensor parallel 256) do not divide over 15 nodes: 17 on each would leave 1 over",
        )
    ],
    # Names are hosts here, so that it is two nodes and not none.
    "defect_empty_node_list": [
        (
            "kunpeng/deepseek-v3-native.yaml",
            f"128 ranks on each node (tensor parallel 256 over 2 nodes), {FULL_NODES}",
        )
    ],
    "defect_long_prompt_16n_pp2_documented": [
        (
            "defect_long_prompt_16n_pp2_documented.yaml",
            f"32 ranks on each node (tensor parallel 256 times 2 pipeline stages over 16 nodes), {FULL_NODES}",
        )
    ],
    "defect_placeholder_left": [("defect_placeholder_left.yaml", "placeholder not filled in: `xxx.xxx.xxx.`")],
    "defect_user_env_tp_only_4n": [
        (
            "defect_user_env_tp_only_4n.yaml",
            (
                "prefill is planned with TP_SIZE=256, EP_SIZE=256, and the environment says TP_SIZE=64, EP_SIZE=64: "
                "libraries would believe that"
            ),
        ),
        (
            "defect_user_env_tp_only_4n.yaml",
            (
                "decode is planned with TP_SIZE=256, DP_SIZE=16, EP_SIZE=256, and the environment says "
                "TP_SIZE=64, DP_SIZE=4, EP_SIZE=64: libraries would believe that"
            ),
        ),
        (
            "kunpeng/deepseek-v3-pd.yaml",
            f"64 ranks on each node (tensor parallel 256 over 4 nodes), {FULL_NODES}",
        ),
    ],
}
"""Every set-up that the reference accepts although it cannot work -> file and message of each error."""


def test_every_broken_set_up_of_the_reference_has_its_profile() -> None:
    defects = sorted(name for name in FILES if name.startswith("defect_"))
    assert defects == sorted(REFUSED) == sorted(file.stem for file in HERE.glob("defect_*.yaml"))


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_reference_starts_and_we_refuse(name: str) -> None:
    """The reference ends with 0, with ranks that no node has a place for, or with none at all; we touch no host."""
    ranks = [process.rank_in_node for process in load(name)]
    assert ranks == [] or max(rank for rank in ranks if rank is not None) > 15
    with pytest.raises(ProfileError) as caught:
        compile_profile(HERE / f"{name}.yaml")
    errors = [problem for problem in caught.value.problems if problem.level == "error"]
    assert [error.message for error in errors] == [message for _, message in REFUSED[name]]
    for error, (file, _) in zip(errors, REFUSED[name], strict=True):
        assert error.hint
        assert error.place is not None
        assert error.place.file.endswith(file)


@pytest.mark.parametrize(
    ("profile", "role"),
    [("seed_native_16n", "native"), ("seed_prefill_16n", "prefill"), ("seed_prefill_16n", "decode")],
)
@pytest.mark.parametrize("hosts", ["xxx.xxx.xxx. | 17-32", "127.0.1. | 16-1", ""])
def test_no_host_is_never_a_success(profile: str, role: str, hosts: str) -> None:
    with pytest.raises(ProfileError) as caught:
        compile_profile(HERE / f"{profile}.yaml", [f'{role}.hosts="{hosts}"'])
    assert any(problem.path[:2] == (role, "hosts") for problem in caught.value.problems)
