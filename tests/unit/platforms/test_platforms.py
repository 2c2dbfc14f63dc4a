"""What each platform gives, and what its settings refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sgdeploy.engine.catalogue import catalogue
from sgdeploy.platforms.base import Platform, Shape
from sgdeploy.platforms.registry import kinds, platform
from sgdeploy.problems import Problem
from sgdeploy.profile.inventory import Host

SHAPE = Shape(
    role="native",
    model_path="/opt/model",
    tokenizer_apart=False,
    index=0,
    nodes=16,
    tp=256,
    pp=1,
    dp=16,
    ep=256,
    by_rank=True,
    numa_copies=True,
    leader_address="10.0.0.1",
    rendezvous_port=5010,
)
PATH = ("platform_settings",)


def configured(kind: str, **settings: Any) -> Platform:
    found, problems = platform(kind).configure(settings)
    assert problems == ()
    assert found is not None
    return found


def refused(kind: str, settings: dict[str, Any]) -> list[Problem]:
    found, problems = platform(kind).configure(settings)
    assert found is None
    return list(problems)


def test_the_platforms_of_this_release() -> None:
    assert kinds() == ("kunpeng-920f", "cpu")
    with pytest.raises(KeyError):
        platform("abacus")


@pytest.mark.parametrize(("kind", "version"), [("kunpeng-920f", "kunpeng"), ("cpu", "0.5.23")])
def test_its_own_flags_are_known_to_the_engine_by_their_full_names(kind: str, version: str) -> None:
    flags = configured(kind, **({"mtp": {"draft_model_path": "/d"}} if kind == "kunpeng-920f" else {})).flags(SHAPE)
    values, problems = catalogue(version).check(flags, ())
    assert problems == ()
    assert values == flags


def test_kunpeng_rank_7() -> None:
    it = configured("kunpeng-920f")
    place = it.place(SHAPE, 7)
    pages = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
    assert place.cores == (286,)
    assert [(write.path, write.pages) for write in place.hugepages] == [
        (pages.format(7), 0),
        (pages.format(23), 2020),
    ]
    assert it.executable(SHAPE, 7, "python") == (
        "/opt/sglang/scripts/cpu_kunpeng/pyinstall/dist/sglang_server_tp7/sglang_server",
    )


def test_kunpeng_without_copies_it_is_python_with_libraries_and_compiler_kit() -> None:
    it, shape = configured("kunpeng-920f"), replace(SHAPE, numa_copies=False)
    assert it.executable(shape, 7, "python") == ("python", "-m", "sglang.launch_server")
    assert it.activate(shape) == ("conda:/opt/conda:sgl-cpu", "setvars:/opt/HPCKit/setvars.sh")
    assert it.env_prepend(shape)["LD_LIBRARY_PATH"][0] == "/opt/kutacc/lib"
    assert "LD_LIBRARY_PATH" not in it.env_prepend(SHAPE)
    assert it.env(shape)["SGLANG_ENABLE_NUMA_DUPLICATION"] == "0"


def test_kunpeng_one_process_per_node_is_not_pinned() -> None:
    it, shape = configured("kunpeng-920f"), replace(SHAPE, by_rank=False)
    assert it.place(shape, None).cores is None
    assert it.place(shape, None).hugepages == ()
    assert it.executable(shape, None, "python3") == ("python3", "-m", "sglang.launch_server")
    assert it.env(shape)["SGLANG_ENABLE_BINARY_LAUNCH"] == "0"


def test_kunpeng_multi_token_prediction() -> None:
    assert "speculative-algorithm" not in configured("kunpeng-920f").flags(SHAPE)
    it = configured("kunpeng-920f", mtp={})
    assert it.flags(SHAPE)["speculative-num-steps"] == 1
    assert "speculative-draft-model-path" not in it.flags(SHAPE)
    assert it.env(SHAPE)["SGLANG_ENABLE_MTP"] == "1"


def test_kunpeng_the_kernel_module_can_be_left_out() -> None:
    (module,) = configured("kunpeng-920f").modules({"native"})
    assert (module.name, module.params) == ("sdma_dae", {"safe_mode": "0", "share_chns": "160"})
    assert configured("kunpeng-920f", sdma=False).modules({"native"}) == ()


@pytest.mark.parametrize(
    ("sdma", "alone", "tokenizers"), [({}, 0, 1), ({"router_host": True}, 1, 1), ({"router_host": False}, 0, 0)]
)
def test_kunpeng_a_router_alone_has_no_use_for_the_module(sdma: dict[str, Any], alone: int, tokenizers: int) -> None:
    it = configured("kunpeng-920f", sdma=sdma)
    assert len(it.modules({"router"})) == alone
    assert len(it.modules({"router", "tokenizer"})) == tokenizers
    assert len(it.modules({"router", "tokenizer", "decode"})) == 1


def test_kunpeng_the_interface_of_the_inventory_wins() -> None:
    it = configured("kunpeng-920f")
    assert it.host_env(Host("n", "n", "n")) == {"GLOO_SOCKET_IFNAME": "enp26s0f0"}
    assert it.host_env(Host("n", "n", "n", nic="eth0")) == {"GLOO_SOCKET_IFNAME": "eth0"}


def test_kunpeng_pages_must_hold_the_pool() -> None:
    pool = {"SGLANG_KUNPENG_WEIGTHS_HBW_POOL_SIZE_MB": "4041"}
    (remark,) = configured("kunpeng-920f").check(SHAPE, {}, pool)
    assert remark.message == (
        "2020 hugepages of 2 MiB hold 4040 MiB on each on-package memory node, "
        "less than SGLANG_KUNPENG_WEIGTHS_HBW_POOL_SIZE_MB = 4041"
    )
    assert "hbm_pages: 2021" in remark.hint
    assert configured("kunpeng-920f", layout={"hbm_pages": 2021}).check(SHAPE, {}, pool) == []
    assert configured("kunpeng-920f").check(replace(SHAPE, by_rank=False), {}, pool) == []
    (remark,) = configured("kunpeng-920f").check(SHAPE, {}, {"SGLANG_KUNPENG_WEIGTHS_HBW_POOL_SIZE_MB": "lots"})
    assert 'got "lots"' in remark.message


def test_cpu_environment() -> None:
    it = configured("cpu", threads_bind="0-3|4-7", omp_threads=4)
    assert it.env(SHAPE) == {
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_CPU_OMP_THREADS_BIND": "0-3|4-7",
        "OMP_NUM_THREADS": "4",
    }
    assert configured("cpu").env(SHAPE) == {"SGLANG_USE_CPU_ENGINE": "1"}

    host = Host("n1", "n1", "10.0.0.9", nic="eth1")
    assert it.host_env(host) == {"SGLANG_HOST_IP": "10.0.0.9", "GLOO_SOCKET_IFNAME": "eth1"}


def test_cpu_prefill_may_have_as_many_pieces_under_way_as_its_transfer_allows() -> None:
    queue = {"MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER": "65535"}
    assert configured("cpu").env(replace(SHAPE, role="prefill")) == {"SGLANG_USE_CPU_ENGINE": "1", **queue}
    assert configured("cpu").env(replace(SHAPE, role="decode")) == {"SGLANG_USE_CPU_ENGINE": "1"}


def test_cpu_memory_should_be_bounded() -> None:
    it = configured("cpu")
    (remark,) = it.check(SHAPE, {}, {})
    assert (remark.level, remark.code) == ("warning", "memory-unbounded")
    assert it.check(SHAPE, {"max-total-tokens": 8192}, {}) == []
    assert it.check(SHAPE, {"mem-fraction-static": 0.5}, {}) == []


def test_cpu_one_core_list_per_rank() -> None:
    shape, flags = replace(SHAPE, nodes=2, tp=4), {"max-total-tokens": 1}
    (remark,) = configured("cpu").check(shape, flags, {"SGLANG_CPU_OMP_THREADS_BIND": "0|1|2"})
    assert remark.message == "SGLANG_CPU_OMP_THREADS_BIND has 3 core lists for 2 ranks on each node"
    assert configured("cpu").check(shape, flags, {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}) == []


def test_unknown_settings_are_told_at_their_place() -> None:
    deep, flat = refused("kunpeng-920f", {"cond_base": "/c", "layout": {"hbm_page": 1}})
    assert flat.message == "unknown key `cond_base` in `platform_settings`"
    assert flat.hint == "did you mean `conda_base`?"
    assert (flat.path, flat.at) == ((*PATH, "cond_base"), "key")
    assert (deep.path, deep.hint) == ((*PATH, "layout", "hbm_page"), "did you mean `hbm_pages`?")


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"sglang_path": "relative"}, ("sglang_path",)),
        ({"sglang_path": 5}, ("sglang_path",)),
        ({"layout": {"numa_nodes": 0}}, ("layout", "numa_nodes")),
        ({"layout": {"hbm_pages": "2020"}}, ("layout", "hbm_pages")),
        ({"layout": {"core_offset": 38}}, ("layout", "core_offset")),
        ({"sdma": {"file": "x.ko"}}, ("sdma", "file")),
        ({"sdma": True}, ("sdma",)),
        ({"mtp": {"draft_model_path": 1}}, ("mtp", "draft_model_path")),
    ],
)
def test_wrong_settings_are_one_problem_each_at_their_place(settings: dict[str, Any], path: tuple[str, ...]) -> None:
    (problem,) = refused("kunpeng-920f", settings)
    assert problem.path == (*PATH, *path)
    assert problem.message.startswith(f"`{'.'.join((*PATH, *path))}` must be ")
