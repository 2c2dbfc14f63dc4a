"""What must not be told: hosts that fit, rehearsals, settings that cure a misfit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sgdeploy.facts.model import Limit, NumaNode, Space
from sgdeploy.facts.text import GIB, MIB
from sgdeploy.plan.model import Hugepages, KernelModule
from tests.facts.build import NODE, a_host, a_plan, a_process, findings, fitting, folder, gone
from tests.facts.samples import sample

MODULE = KernelModule(name="sdma_dae", file="/opt/sdma/sdma_dae.ko", params={"safe_mode": "0", "share_chns": "160"})
SIMULATED: dict[str, Any] = {
    "argv": ("python3", "-I", "-S", "engine.py", "--model-path", "/models/tiny"),
    "in_run_dir": (3,),
}


def _codes(
    *, facts: dict[str, Any] | None = None, process: dict[str, Any], host: dict[str, Any] | None = None
) -> list[str]:
    plan = a_plan(a_process(**process), hosts=(a_host(**(host or {})),))
    return [it.code for it in findings(plan, fitting(**(facts or {})))]


@pytest.mark.parametrize("page", ["4k", "64k"])
def test_a_kunpeng_node_fits_a_plan_of_sixteen_ranks(page: str) -> None:
    ranks = tuple(
        a_process(
            rank=r,
            argv=("python", "-m", "sglang.launch_server", "--model", "/models/deepseek-v3-int8"),
            activate=("conda:/opt/conda:sgl-cpu",),
            cores=(r * 38 + 20,),
            hugepages=(Hugepages(path=NODE.format(r), value=0), Hugepages(path=NODE.format(r + 16), value=2020)),
            env={"GLOO_SOCKET_IFNAME": "enp26s0f0"},
        )
        for r in range(16)
    )
    plan = a_plan(*ranks, hosts=(a_host(modules=(MODULE,)),))
    assert findings(plan, sample(f"openeuler-24.03-kunpeng-920-{page}")) == []


def test_a_kunpeng_plan_on_a_small_machine_tells_everything_at_once() -> None:
    ranks = tuple(
        a_process(
            rank=r,
            address="192.0.2.2",
            argv=(f"/opt/dist/tp{r}/server", "--model-path", "/models/tiny"),
            cores=(r * 38 + 20,),
            hugepages=(Hugepages(path=NODE.format(r + 16), value=2020),),
            env={"GLOO_SOCKET_IFNAME": "enp26s0f0"},
        )
        for r in range(16)
    )
    plan = a_plan(*ranks, hosts=(a_host(address="192.0.2.2", modules=(MODULE,)),))
    facts = sample("debian-12-x86-64")
    missing = {f"/opt/dist/tp{r}/server": gone() for r in range(16)} | {MODULE.file: gone()}
    facts = replace(facts, paths={**facts.paths, **missing})
    told = {it.code: it.message for it in findings(plan, facts)}
    assert list(told) == [
        "no-insmod",
        "program-missing",
        "module-file-missing",
        "cores-missing",
        "numa-missing",
        "nic-missing",
        "model-missing",
    ]
    assert told["program-missing"] == "no program to run: /opt/dist/tp[0-15]/server do not exist"
    assert told["numa-missing"] == "planned NUMA nodes that do not exist: 16-31 (online: 0)"


def test_a_rehearsal_needs_no_model_no_libraries_no_fast_network() -> None:
    assert (
        _codes(
            facts={
                "paths": {"/models/tiny": gone(), "/opt/kupl/lib": gone(), "/var/lib": folder()},
                "memlock": Limit(65536, 65536),
                "shm": Space(1 * MIB, 1 * MIB, 10, writable=True, nearest="/dev/shm"),
            },
            process={**SIMULATED, "devices": ("roceroh0",), "env_prepend": {"LD_LIBRARY_PATH": ("/opt/kupl/lib",)}},
        )
        == []
    )


def test_a_router_needs_no_shared_memory() -> None:
    facts = {"shm": Space(64 * MIB, 1 * MIB, 10, writable=True, nearest="/dev/shm")}
    assert _codes(facts=facts, process={}) == ["shm-small"]
    assert (
        _codes(facts=facts, process={"role": "router", "argv": ("python", "-m", "sglang_router.launch_router")}) == []
    )


def test_a_rehearsal_is_only_warned_of_a_network_interface_that_is_not_there() -> None:
    plan = a_plan(a_process(**SIMULATED, env={"GLOO_SOCKET_IFNAME": "enp26s0f0"}))
    assert [(it.code, it.level) for it in findings(plan, fitting())] == [("nic-missing", "warning")]


def test_redirected_sysfs_needs_no_root() -> None:
    path = NODE.format(0)
    facts = {"uid": 1000, "user": "ops", "numa": {}, "huge": (), "paths": {f"/tmp/lab{path}": folder()}}
    writes = {"hugepages": (Hugepages(path=path, value=4),)}
    assert _codes(facts=facts, process={**SIMULATED, **writes}, host={"sysfs_root": "/tmp/lab/"}) == []


def test_a_loaded_module_needs_neither_file_nor_insmod_nor_root() -> None:
    facts = {
        "uid": 1000,
        "modules": frozenset({"sdma_dae"}),
        "parameters": {"sdma_dae": {"safe_mode": "N", "share_chns": "160"}},
        "paths": {**fitting().paths, MODULE.file: gone()},
        "tools": {**fitting().tools, "insmod": None},
    }
    assert _codes(facts=facts, process={}, host={"modules": (MODULE,)}) == []


def test_hugepages_that_are_there_already_count_as_free() -> None:
    pools = tuple(replace(pool, total=2020, free=0) if pool.node == 1 else pool for pool in fitting().huge)
    facts = {"numa": {**fitting().numa, 1: NumaNode(1, (4,), 16 * GIB, 1 * GIB)}, "huge": pools}
    assert _codes(facts=facts, process={"hugepages": (Hugepages(path=NODE.format(1), value=2020),)}) == []


def test_node_figures_that_do_not_add_up_are_not_believed() -> None:
    facts = {"numa": {0: NumaNode(0, (0, 1), 4 * GIB, 3 * GIB)}}
    assert _codes(facts=facts, process={"hugepages": (Hugepages(path=NODE.format(0), value=4000),)}) == []


@pytest.mark.parametrize(
    ("no_proxy", "covered"),
    [
        ("10.0.0.1", True),
        ("localhost, 10.0.0.0/24", True),
        ("*", True),
        ("", False),
        ("10.0.0.10", False),
        ("10.0.1.0/24", False),
    ],
)
def test_no_proxy_of_the_session_or_of_the_plan_covers_addresses(no_proxy: str, *, covered: bool) -> None:
    expected = [] if covered else ["proxy"]
    session = {"proxies": {"http_proxy": "http://proxy:3128", "no_proxy": no_proxy}}
    assert _codes(facts=session, process={}) == expected
    planned = {"env": {"NO_PROXY": no_proxy}}
    assert _codes(facts={"proxies": {"http_proxy": "http://proxy:3128"}}, process=planned) == expected


def test_a_proxy_for_https_only_catches_none_of_our_requests() -> None:
    assert _codes(facts={"proxies": {"https_proxy": "http://proxy:3128"}}, process={}) == []


def test_a_name_is_judged_by_what_the_host_resolves_it_to() -> None:
    host = {"address": "n01.lab"}
    assert _codes(facts={"resolved": {"n01.lab": ("10.0.0.1",)}}, process={}, host=host) == []
    assert _codes(facts={"resolved": {"n01.lab": ("10.0.0.2",)}}, process={}, host=host) == ["address-missing"]
    assert _codes(facts={"resolved": {}}, process={}, host=host) == []


def test_ipv6_addresses_are_compared_by_value() -> None:
    plan = a_plan(
        a_process(address="2001:db8:0:1:0::17", connects={"rendezvous": "[2001:db8:0:1::17]:5000"}),
        hosts=(a_host(address="2001:db8:0:1:0::17"),),
    )
    codes = [it.code for it in findings(plan, sample("ipv6-only")) if it.level == "error"]
    assert codes == ["model-missing"]


def test_a_mix_of_families_fits_a_host_that_has_both() -> None:
    meeting = {"rendezvous": "[fd00::9]:5000", "named": "both.lab:5000", "own": "127.0.0.1:5000"}
    facts = fitting(
        interfaces={"lo": ("127.0.0.1",), "eth0": ("fe80::1", "fd00::1")},
        resolved={"both.lab": ("10.9.9.9", "fd00::8")},
    )
    plan = a_plan(a_process(address="fd00::1", connects=meeting), hosts=(a_host(address="fd00::1"),))
    assert [it.code for it in findings(plan, facts) if it.level == "error"] == []


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.7"])
def test_every_loopback_address_is_on_every_host(address: str) -> None:
    assert _codes(process={"address": address}, host={"address": address, "connection": "local"}) == []


def test_what_could_not_be_read_is_not_held_against_a_host() -> None:
    unknown: dict[str, Any] = {
        "cpus_online": (), "cpus_present": (), "cpus_allowed": (), "mems_allowed": (), "numa": {}, "huge": (),
        "shm": None, "run_dir": None, "interfaces": {}, "ephemeral": None, "memlock": None, "tools": {}, "paths": {},
        "uid": None, "python": (),
    }  # fmt: skip
    needs = {
        "cores": (900,),
        "memory_nodes": (40,),
        "hugepages": (Hugepages(path=NODE.format(40), value=9),),
        "env": {"GLOO_SOCKET_IFNAME": "enp26s0f0"},
        "devices": ("roceroh0",),
    }
    assert _codes(facts=unknown, process=needs, host={"modules": (MODULE,)}) == []
