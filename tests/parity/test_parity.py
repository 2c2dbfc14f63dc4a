"""The shipped Kunpeng profile against captured runs of the reference, process by process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgdeploy.errors import ProfileError
from sgdeploy.plan.compile import compile_profile
from tests.parity.golden import DATA, differences, kernel_module, load

HERE = Path(__file__).resolve().parent
SEEDS = sorted(file.stem for file in DATA.glob("seed_native_*.json"))


def test_every_captured_run_has_its_profile() -> None:
    assert SEEDS
    assert sorted(file.stem for file in HERE.glob("seed_*.yaml")) == SEEDS


@pytest.mark.parametrize("name", SEEDS)
def test_the_plan_starts_exactly_the_captured_processes(name: str) -> None:
    plan = compile_profile(HERE / f"{name}.yaml").plan
    captured = {(process.node, process.rank_in_node): process for process in load(f"{name}.json")}
    planned = {(process.host, process.rank_in_node): process for process in plan.processes}
    assert len(planned) == len(plan.processes)
    assert planned.keys() == captured.keys()
    wrong = {planned[key].label: found for key in planned if (found := differences(planned[key], captured[key]))}
    assert wrong == {}
    assert [planned[key].node_rank for key in captured] == [process.node_rank for process in captured.values()]


@pytest.mark.parametrize("name", SEEDS)
def test_the_kernel_module_is_loaded_as_captured(name: str) -> None:
    for host in compile_profile(HERE / f"{name}.yaml").plan.hosts:
        (module,) = host.modules
        words = ["insmod", module.file, *(f"{key}={value}" for key, value in module.params.items())]
        assert words == kernel_module(f"{name}.json")


@pytest.mark.parametrize("name", SEEDS)
def test_pages_of_a_host_are_the_sum_of_its_ranks(name: str) -> None:
    plan = compile_profile(HERE / f"{name}.yaml").plan
    for host in plan.hosts:
        assert list(host.hugepages) == [write for process in plan.on_host(host.host) for write in process.hugepages]


def test_the_comparison_sees_a_difference() -> None:
    plan = compile_profile(HERE / "seed_native_1n.yaml", ["native.flags.page-size=32", "engine.env.TP_SIZE=8"]).plan
    assert differences(plan.processes[0], load("seed_native_1n.json")[0]) == [
        "extra ('--page-size', '32')",
        "missing ('--page-size', '64')",
        "TP_SIZE is '8' instead of '16'",
    ]


@pytest.mark.parametrize(
    ("captured", "override", "message"),
    [
        (
            "defect_15n_not_divisible.json",
            'native.hosts="127.0.1. | 1-15"',
            "256 ranks (tensor parallel 256) do not divide over 15 nodes: 17 on each would leave 1 over",
        ),
        (
            "defect_long_prompt_16n_pp2_documented.json",
            "native.parallel.pp=2",
            (
                "32 ranks on each node (tensor parallel 256 times 2 pipeline stages over 16 nodes), "
                "but a kunpeng-920f node holds 16, one per compute NUMA node"
            ),
        ),
    ],
)
def test_what_the_reference_starts_and_we_refuse(captured: str, override: str, message: str) -> None:
    ranks = [process.rank_in_node for process in load(captured)]
    assert max(rank for rank in ranks if rank is not None) > 15
    with pytest.raises(ProfileError) as caught:
        compile_profile(HERE / "seed_native_16n.yaml", [override])
    (error,) = (problem for problem in caught.value.problems if problem.level == "error")
    assert error.message == message
    assert error.place is not None
    assert error.place.file.endswith("profiles/kunpeng/deepseek-v3-native.yaml")
    assert error.place.text.strip().startswith("tp: 256")


@pytest.mark.parametrize("hosts", ["xxx.xxx.xxx. | 17-32", "127.0.1. | 16-1", ""])
def test_no_host_is_never_a_success(hosts: str) -> None:
    with pytest.raises(ProfileError) as caught:
        compile_profile(HERE / "seed_native_16n.yaml", [f'native.hosts="{hosts}"'])
    assert any(problem.path[:2] == ("native", "hosts") for problem in caught.value.problems)
