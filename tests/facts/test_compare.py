"""Hosts held against each other, and what is asked of them."""

from __future__ import annotations

import json
from typing import Any

from sgdeploy.facts.wanted import gather_request, ports_request
from sgdeploy.plan.model import Hugepages, KernelModule, Plan
from tests.facts.build import NODE, a_host, a_plan, a_process, findings, fitting, gone

ADDRESSES = {"n01": "10.0.0.1", "n02": "10.0.0.2", "n03": "10.0.0.3"}


def _plan(**host: Any) -> Plan:
    return a_plan(
        *(a_process(name, address) for name, address in ADDRESSES.items()),
        hosts=tuple(a_host(name, address, **host) for name, address in ADDRESSES.items()),
    )


def _told(plan: Plan, **changes: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    facts = [fitting(name, address, **changes.get(name, {})) for name, address in ADDRESSES.items()]
    return [(it.level, it.code, it.host, it.message) for it in findings(plan, *facts)]


def test_equal_hosts_have_no_findings() -> None:
    assert _told(_plan()) == []


def test_the_host_that_differs_is_named_not_the_others() -> None:
    told = _told(_plan(), n02={"python": (3, 9, 9), "kernel": "5.10.0", "arch": "x86_64"})
    assert told == [
        ("warning", "python-differs", "n02", "python3 is 3.9; 2 of 3 hosts have 3.11"),
        ("warning", "kernel-differs", "n02", "kernel is 5.10.0; 2 of 3 hosts have 6.6.0"),
        ("warning", "arch-differs", "n02", "architecture is x86_64; 2 of 3 hosts have aarch64"),
    ]


def test_patch_releases_of_python_do_not_matter() -> None:
    assert _told(_plan(), n02={"python": (3, 11, 9)}) == []


def test_a_clock_that_is_off_is_told_and_one_within_tolerance_is_not() -> None:
    told = _told(_plan(), n01={"clock_offset": 5.0}, n03={"clock_offset": -61.4})
    assert told == [("warning", "clock-offset", "n03", "the clock is 61 s behind the others (tolerated: 5 s)")]


def test_a_controller_whose_own_clock_is_off_blames_nobody() -> None:
    assert _told(_plan(), **{name: {"clock_offset": 400.0} for name in ADDRESSES}) == []


def test_one_machine_under_two_names_is_told_once() -> None:
    twin = {"boot_id": "same", "hostname": "box"}
    assert _told(_plan(), n01=twin, n03=twin) == [
        ("warning", "same-machine", "n01", "the hosts n01, n03 are one machine: same boot id same"),
    ]


def test_containers_of_one_machine_are_told_as_such() -> None:
    told = _told(_plan(), **{name: {"boot_id": "same"} for name in ADDRESSES})
    assert [message for *_, message in told] == [
        "the hosts n01, n02, n03 share one machine (containers or namespaces): same boot id same"
    ]


def test_machines_with_one_host_name_are_told() -> None:
    told = _told(_plan(), n02={"hostname": "localhost"}, n03={"hostname": "localhost"})
    assert told == [("warning", "same-hostname", "n02", "the hosts n02, n03 all call themselves localhost")]


def test_local_hosts_share_their_machine_on_purpose() -> None:
    same = {name: {"boot_id": "same", "hostname": "here"} for name in ADDRESSES}
    assert _told(_plan(connection="local"), **same) == []
    loopback = a_plan(
        a_process(),
        hosts=tuple(a_host(name, f"127.0.1.{n}") for n, name in enumerate(ADDRESSES, 1)),
    )
    facts = [fitting(name, f"127.0.1.{n}", **same[name]) for n, name in enumerate(ADDRESSES, 1)]
    assert findings(loopback, *facts) == []


def test_a_name_that_leads_to_loopback_matters_only_with_other_hosts() -> None:
    plan = a_plan(a_process(), hosts=(a_host(address="n01"), a_host("n02", "10.0.0.2")))
    facts = (fitting(resolved={"n01": ("127.0.1.1",)}), fitting("n02", "10.0.0.2"))
    assert [(it.code, it.level, it.message) for it in findings(plan, *facts)] == [
        ("name-loopback", "warning", "n01 resolves to 127.0.1.1 here: other hosts cannot reach that")
    ]
    alone = a_plan(a_process(), hosts=(a_host(address="n01"),))
    assert findings(alone, facts[0]) == []


def test_a_model_that_some_hosts_lack_names_them_all() -> None:
    lacking = {"paths": {"/models/tiny": gone()}}
    told = _told(_plan(), n02=lacking, n03=lacking)
    message = "the model path /models/tiny does not exist (on 2 of 3 hosts: n02, n03)"
    assert told == [("error", "model-missing", "n02", message), ("error", "model-missing", "n03", message)]


def test_findings_come_by_host_and_errors_first() -> None:
    bad = {"shm": None, "tools": {"bash": None}, "kernel": "5.10.0", "paths": {"/models/tiny": gone()}}
    told = _told(_plan(), n02=bad)
    told += _told(_plan(), n03={"ephemeral": (30000, 60999), "tools": {"bash": None}}, n01={"tools": {"bash": None}})
    assert [(host, level, code) for level, code, host, _ in told] == [
        ("n02", "error", "no-bash"),
        ("n02", "error", "model-missing"),
        ("n02", "warning", "kernel-differs"),
        ("n01", "error", "no-bash"),
        ("n03", "error", "no-bash"),
        ("n03", "warning", "port-ephemeral"),
    ]


def test_hosts_without_facts_are_passed_over() -> None:
    assert findings(_plan(), fitting()) == []


def test_the_request_asks_for_what_the_plan_needs_each_once() -> None:
    host = a_host(
        address="n01.lab",
        run_dir="~/.local/state/sgdeploy/demo/n01",
        modules=(KernelModule(name="sdma-dae", file="/opt/sdma/sdma_dae.ko", params={}),),
        sysfs_root="/tmp/lab",
    )
    write = Hugepages(path=NODE.format(0), value=4)
    ranks = (
        a_process(rank=0, hugepages=(write,), connects={"rendezvous": "n02.lab:5000"}, cwd="/opt/sglang"),
        a_process(rank=1, hugepages=(write,), argv=("/opt/tp1/server", "--model-path", "org/model")),
    )
    request = gather_request(a_plan(*ranks, hosts=(host,)), host)
    assert json.loads(json.dumps(request)) == request
    assert request["stat"] == [
        f"/tmp/lab{NODE.format(0)}",
        "~/.local/state/sgdeploy/demo/n01",
        "~/.local/state/sgdeploy/demo",
        "~/.local/state/sgdeploy",
        "~/.local/state",
        "~/.local",
        "/opt/sdma/sdma_dae.ko",
        "/models/tiny",
        "/opt/sglang",
        "/opt/tp1/server",
    ]
    assert request["space"] == ["/dev/shm", "~/.local/state/sgdeploy/demo/n01"]
    assert [name for name in request["commands"] if ":" in name] == ["resolve:n01.lab", "resolve:n02.lab"]
    assert "/tmp/lab/sys/devices/system/node/node*/meminfo" in request["files"]
    assert "/tmp/lab/sys/module/sdma_dae/parameters/*" in request["files"]
    assert len(request["files"]) == len(set(request["files"]))


def test_only_ports_that_are_listened_on_are_asked_for() -> None:
    ranks = (a_process(rank=0, listens={"http": 30000, "bootstrap": None}), a_process(rank=1))
    plan = a_plan(*ranks)
    assert ports_request(plan, plan.hosts[0]) == [
        {"address": "10.0.0.1", "port": 30000},
        {"address": "10.0.0.1", "port": 30001},
    ]
