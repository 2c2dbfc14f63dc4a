"""Recorded hosts → facts."""

from __future__ import annotations

import json
import os

import pytest
import yaml

from sgdeploy.facts.parse import parse
from tests.facts.samples import FOLDER, NAMES, sample, short

IS_REFRESHED = os.environ.get("SGDEPLOY_REFRESH_GOLDEN") == "1"


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_host_gives_the_expected_facts(name: str) -> None:
    """Set SGDEPLOY_REFRESH_GOLDEN=1 to write the expectations anew, then read the difference line by line."""
    found = short(sample(name))
    expectation = FOLDER / f"{name}.yaml"
    if IS_REFRESHED:
        expectation.write_text(yaml.safe_dump(found, sort_keys=False, width=110), encoding="utf-8")
    assert found == yaml.safe_load(expectation.read_text(encoding="utf-8"))


def test_memory_only_nodes_have_memory_and_no_cpus() -> None:
    numa = sample("openeuler-24.03-kunpeng-920-4k").numa
    assert [node for node, it in numa.items() if not it.cpus] == list(range(16, 32))
    assert all(it.memory_total for it in numa.values())
    assert [len(it.cpus) for it in numa.values()][:16] == [38] * 16


def test_hugepage_sizes_follow_the_base_page() -> None:
    sizes = {
        page: sorted({pool.size // 1024 for pool in sample(f"openeuler-24.03-kunpeng-920-{page}").huge})
        for page in ("4k", "64k")
    }
    assert sizes == {"4k": [64, 2048, 32768, 1048576], "64k": [2048, 524288, 16777216]}


def test_addresses_without_the_ip_command_find_their_interfaces_by_the_routes() -> None:
    facts = sample("no-ip-command")
    assert {a: facts.interface_of(a) for a in ("10.0.0.7", "192.168.3.7", "172.31.5.1", "127.0.1.9", "fd00::0:7")} == {
        "10.0.0.7": "eth0",
        "192.168.3.7": "eth1",
        "172.31.5.1": "",
        "127.0.1.9": "lo",
        "fd00::0:7": "eth0",
    }
    assert facts.interface_of("10.0.0.8") is None
    assert facts.interfaces["ib0"] == ()


@pytest.mark.parametrize("name", ["debian-12-x86-64", "ipv6-only"])
def test_the_kernels_tables_say_the_same_as_the_ip_command(name: str) -> None:
    recorded = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    with_ip = sample(name).interfaces
    recorded["result"]["commands"]["ip"] = {"rc": 127, "out": "", "err": "ip: not found"}
    without = parse("n01", recorded["hello"], recorded["result"]).interfaces
    assert {name: sorted(found) for name, found in without.items()} == {n: sorted(f) for n, f in with_ip.items()}


def test_a_name_that_does_not_resolve_differs_from_a_question_that_failed() -> None:
    assert sample("container-restricted-cpuset").resolved == {"job-8841-1": ("172.17.0.6",), "job-8841-9": ()}


def test_no_password_of_a_proxy_is_kept() -> None:
    assert "hunter2" not in repr(sample("container-restricted-cpuset"))


def test_an_empty_answer_gives_empty_facts_and_no_error() -> None:
    facts = parse("n01", {}, {})
    assert (facts.cpus_allowed, dict(facts.numa), facts.ephemeral, facts.run_dir) == ((), {}, None, None)


@pytest.mark.parametrize("text", ["", "\n", "many\n", "-1\n"])
def test_a_pool_that_gives_no_number_is_none_and_hides_no_other(text: str) -> None:
    folder = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/"
    files = {folder.format(node) + name: "7\n" for node in (0, 1) for name in ("nr_hugepages", "free_hugepages")}
    files[folder.format(0) + "nr_hugepages"] = text
    facts = parse("n01", {}, {"files": files})
    assert [(pool.node, pool.total, pool.free) for pool in facts.huge] == [(1, 7, 7)]
