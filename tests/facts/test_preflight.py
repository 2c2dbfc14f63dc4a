"""Each way in which one host does not fit, with its exact words."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sgdeploy.facts.model import Finding, Limit, NumaNode, PathFact, Space
from sgdeploy.facts.text import GIB, MIB
from sgdeploy.plan.model import Hugepages, KernelModule
from tests.facts.build import NODE, a_host, a_plan, a_process, file, findings, fitting, folder, gone

MODULE = KernelModule(name="sdma-dae", file="/opt/sdma/sdma_dae.ko", params={"safe_mode": "0", "share_chns": "160"})


@dataclass(frozen=True)
class Case:
    """One thing that is wrong."""

    code: str
    message: str
    hint: str
    level: str = "error"
    facts: dict[str, Any] = field(default_factory=dict)
    process: dict[str, Any] = field(default_factory=dict)
    host: dict[str, Any] = field(default_factory=dict)
    listening: tuple[dict[str, Any], ...] = ()

    def found(self) -> list[Finding]:
        """Run preflight over the one host."""
        plan = a_plan(a_process(**self.process), hosts=(a_host(**self.host),))
        return findings(plan, fitting(**self.facts), listening={"n01": list(self.listening)})


def _space(**changes: Any) -> Space:
    return replace(fitting().run_dir or Space(), **changes)


def _paths(**more: PathFact) -> dict[str, PathFact]:
    return {**fitting().paths, **more}


def _no(tool: str) -> dict[str, str | None]:
    return {**fitting().tools, tool: None}


CASES = [
    Case(
        "python-old",
        "python3 is 3.6.8, the node helper needs 3.7 or newer",
        "install a newer python3; it must be the first one in the PATH of a non-login shell",
        facts={"python": (3, 6, 8)},
    ),
    Case(
        "no-bash",
        "bash is not installed (not in PATH), but every process script is run by it",
        "install bash",
        facts={"tools": _no("bash")},
    ),
    Case(
        "no-taskset",
        "taskset is not installed (not in PATH), but cores are planned for 1 process",
        "install util-linux, or set node.pin: false",
        facts={"tools": _no("taskset")},
        process={"cores": (1,)},
    ),
    Case(
        "no-numactl",
        "numactl is not installed (not in PATH), but memory is bound to NUMA nodes 0-1",
        "install numactl: taskset alone does not bind memory",
        facts={"tools": _no("numactl")},
        process={"memory_nodes": (0, 1)},
    ),
    Case(
        "no-insmod",
        "insmod is not installed (not in PATH), but the kernel module sdma-dae is to be loaded",
        "install kmod, or load the module before",
        facts={"tools": _no("insmod"), "paths": _paths(**{MODULE.file: file()})},
        host={"modules": (MODULE,)},
    ),
    Case(
        "not-root",
        "user ops (uid 1000) may not set hugepages (2 sysfs files) and load the kernel module sdma-dae",
        "become root there: `user: root`, or `sudo: true`, in the inventory's ssh section",
        facts={"user": "ops", "uid": 1000},
        process={"hugepages": (Hugepages(path=NODE.format(0), value=0), Hugepages(path=NODE.format(1), value=4))},
        host={"modules": (MODULE,)},
    ),
    Case(
        "module-differs",
        "a kernel module is loaded with other parameters: sdma-dae has share_chns=80, planned is share_chns=160",
        "when nobody uses it: rmmod sdma_dae; or plan the parameters that it has",
        facts={
            "modules": frozenset({"sdma_dae"}),
            "parameters": {"sdma_dae": {"safe_mode": "N", "share_chns": "80"}},
        },
        host={"modules": (MODULE,)},
    ),
    Case(
        "module-file-missing",
        "the kernel module's file /opt/sdma/sdma_dae.ko does not exist",
        "install the driver on this host, or correct the path in platform_settings",
        facts={"paths": _paths(**{MODULE.file: gone()})},
        host={"modules": (MODULE,)},
    ),
    Case(
        "memlock",
        "a session here may lock 8 MiB of memory; the RDMA devices roceroh0, roceroh1 need more",
        "set `memlock unlimited` for our user in /etc/security/limits.conf and connect again",
        level="warning",
        facts={"memlock": Limit(8 * MIB, 8 * MIB)},
        process={"devices": ("roceroh1", "roceroh0")},
    ),
    Case(
        "run-dir-kind",
        "/var/lib/sgdeploy is no folder (file); the run folder is /var/lib/sgdeploy/demo/n01",
        "move it away, or set node.run_dir to another folder",
        facts={"paths": _paths(**{"/var/lib/sgdeploy": file()}), "run_dir": _space(writable=False)},
    ),
    Case(
        "run-dir-kind",
        "/var/lib/sgdeploy is no folder (dangling-link); the run folder is /var/lib/sgdeploy/demo/n01",
        "move it away, or set node.run_dir to another folder",
        facts={"paths": _paths(**{"/var/lib/sgdeploy": replace(gone(), kind="dangling-link")})},
    ),
    Case(
        "run-dir-unknown",
        "the run folder /var/lib/sgdeploy/demo/n01 gives no answer: still waiting after 5 s",
        "look at it on the host (a dead mount?), or set node.run_dir to another folder",
        facts={"run_dir": Space(error="still waiting after 5 s")},
    ),
    Case(
        "run-dir-denied",
        "user ops may not write /var/lib; the run folder is /var/lib/sgdeploy/demo/n01",
        "set node.run_dir to a folder of yours, or as root: install -d -o ops /var/lib/sgdeploy",
        facts={"user": "ops", "uid": 1000, "run_dir": _space(writable=False)},
    ),
    Case(
        "run-dir-space",
        "63.5 MiB free at /var/lib, 64 MiB needed for scripts, records and logs of 1 process",
        "make room, or set node.run_dir to another file system",
        facts={"run_dir": _space(free=63 * MIB + MIB // 2)},
    ),
    Case(
        "run-dir-space",
        "67108863 bytes free at /var/lib, 67108864 bytes needed for scripts, records and logs of 1 process",
        "make room, or set node.run_dir to another file system",
        facts={"run_dir": _space(free=64 * MIB - 1)},
    ),
    Case(
        "run-dir-inodes",
        "room for 0 more files at /var/lib, 72 needed for scripts, records and logs of 1 process",
        "make room, or set node.run_dir to another file system",
        facts={"run_dir": _space(inodes_free=0)},
    ),
    Case(
        "run-dir-inodes",
        "room for 71 more files at /var/lib, 72 needed for scripts, records and logs of 1 process",
        "make room, or set node.run_dir to another file system",
        facts={"run_dir": _space(inodes_free=71)},
    ),
    Case(
        "model-missing",
        "the model path /models/tiny does not exist (on 1 of 1 host)",
        "copy or mount the weights there, or correct model.path: it must be the same on every host",
        facts={"paths": {"/models/tiny": gone()}},
    ),
    Case(
        "model-denied",
        "the model path /models/tiny cannot be read by our user (on 1 of 1 host)",
        "copy or mount the weights there, or correct model.path: it must be the same on every host",
        facts={"paths": {"/models/tiny": gone("Permission denied")}},
    ),
    Case(
        "program-missing",
        "no program to run: /opt/tp0/server does not exist",
        "install the engine at that place on this host, or correct engine.executable or platform_settings",
        facts={"paths": _paths(**{"/opt/tp0/server": gone()})},
        process={"argv": ("/opt/tp0/server", "--model-path=/models/tiny")},
    ),
    Case(
        "program-denied",
        "user root may not run /opt/tp0/server",
        "look at it with `ls -l`; as its owner: chmod +x /opt/tp0/server",
        facts={"paths": _paths(**{"/opt/tp0/server": file()})},
        process={"argv": ("/opt/tp0/server", "--model-path=/models/tiny")},
    ),
    Case(
        "activation-missing",
        "cannot be activated: conda:/opt/conda:sgl: /opt/conda/bin/conda does not exist; "
        "setvars:/opt/kit/setvars.sh: /opt/kit/setvars.sh cannot be looked at (Permission denied)",
        "install it on this host, or correct engine.activate or platform_settings",
        facts={
            "paths": _paths(
                **{
                    "/opt/conda/bin/conda": gone(),
                    "/opt/kit/setvars.sh": gone("Permission denied"),
                    "/opt/venv/bin/activate": file(),
                }
            )
        },
        process={"activate": ("conda:/opt/conda:sgl", "setvars:/opt/kit/setvars.sh", "venv:/opt/venv")},
    ),
    Case(
        "cwd-missing",
        "the working folder /opt/sglang does not exist",
        "create it, or correct engine.cwd",
        facts={"paths": _paths(**{"/opt/sglang": gone()})},
        process={"cwd": "/opt/sglang"},
    ),
    Case(
        "library-path-missing",
        "a folder of a search path is missing: /opt/kupl/lib does not exist",
        "install what belongs there, or correct platform_settings",
        level="warning",
        facts={"paths": _paths(**{"/opt/kupl/lib": gone(), "/opt/kutacc/lib": folder()})},
        process={"env_prepend": {"LD_LIBRARY_PATH": ("/opt/kutacc/lib", "/opt/kupl/lib")}},
    ),
    Case(
        "preload-missing",
        "a library to be preloaded: /opt/lib/hook.so does not exist",
        "install it on this host, or correct platform_settings.pthread_hook or LD_PRELOAD in env",
        facts={"paths": _paths(**{"/opt/lib/hook.so": gone(), "/opt/lib/other.so": file()})},
        process={"env": {"LD_PRELOAD": "/opt/lib/hook.so:/opt/lib/other.so libname.so"}},
    ),
    Case(
        "cores-missing",
        "planned cores that do not exist or are offline: 8-9 (online: 0-7)",
        "check that the profile's platform is this host's, plan fewer ranks per node, or set node.pin: false",
        process={"cores": (7, 8, 9)},
    ),
    Case(
        "cores-not-allowed",
        "planned cores that a session here may not use: 6-7 (Cpus_allowed_list: 0-5)",
        "widen the cpuset of the container, cgroup or batch job that sshd runs in, or plan fewer ranks per node",
        facts={"cpus_allowed": tuple(range(6))},
        process={"cores": (5, 6, 7)},
    ),
    Case(
        "numa-missing",
        "planned NUMA nodes that do not exist: 16 (online: 0-1)",
        "check that the profile's platform is this host's, and that the firmware shows its memory nodes",
        facts={"paths": _paths(**{NODE.format(16): gone()})},
        process={"hugepages": (Hugepages(path=NODE.format(16), value=2020),)},
    ),
    Case(
        "numa-not-allowed",
        "planned NUMA nodes whose memory a session here may not use: 1 (Mems_allowed_list: 0)",
        "widen the cpuset of the container, cgroup or batch job that sshd runs in",
        facts={"mems_allowed": (0,)},
        process={"memory_nodes": (0, 1)},
    ),
    Case(
        "hugepages-path",
        "no such file: /sys/devices/system/node/node[0-1]/hugepages/hugepages-2048kB/nr_hugepages; "
        "the kernel with its base page of 64 KiB offers hugepages of these sizes: 512 MiB, 16 GiB",
        "plan a size that this kernel has, or boot the kernel that the platform asks for",
        facts={
            "page_size": 65536,
            "huge": tuple(replace(p, size=s) for p in fitting().huge for s in (512 * MIB, 16 * GIB)),
            "paths": _paths(**{NODE.format(0): gone(), NODE.format(1): gone()}),
        },
        process={"hugepages": tuple(Hugepages(path=NODE.format(n), value=4) for n in (0, 1))},
    ),
    Case(
        "hugepages-path",
        f"no such file: /tmp/lab{NODE.format(0)}; node.sysfs_root is /tmp/lab",
        "make a file for each of the plan's hugepage settings there (`sgdeploy plan PROFILE --json` lists them)",
        facts={"numa": {}, "huge": (), "uid": 1000, "paths": _paths(**{f"/tmp/lab{NODE.format(0)}": gone()})},
        process={"hugepages": (Hugepages(path=NODE.format(0), value=4),)},
        host={"sysfs_root": "/tmp/lab"},
    ),
    Case(
        "hugepages-memory",
        "hugepages do not fit: 2020 pages (4040 MiB) asked, 3072 MiB in all on each of nodes 2-3",
        "plan fewer pages (platform_settings), or check that this is the right kind of host",
        facts={"numa": {**fitting().numa, **{n: NumaNode(n, (), 3 * GIB, 3 * GIB) for n in (2, 3)}}},
        process={"hugepages": tuple(Hugepages(path=NODE.format(n), value=2020) for n in (2, 3))},
    ),
    Case(
        "hugepages-tight",
        "hugepages may not fit, since memory is in use: 2020 pages (4040 MiB) asked, 1024 MiB free on node 1",
        "see who uses it (`numastat -m`), or drop the page cache: sync; echo 3 > /proc/sys/vm/drop_caches",
        level="warning",
        facts={"numa": {**fitting().numa, 1: NumaNode(1, (4, 5, 6, 7), 16 * GIB, 1 * GIB)}},
        process={"hugepages": (Hugepages(path=NODE.format(1), value=2020),)},
    ),
    Case(
        "shm-small",
        "/dev/shm has 60 MiB free of 64 MiB; 1 engine process may need 1024 MiB",
        "remove what earlier runs left in /dev/shm, or make it larger: mount -o remount,size=… /dev/shm "
        "(a container: --shm-size)",
        level="warning",
        facts={"shm": Space(64 * MIB, 60 * MIB, 100, writable=True, nearest="/dev/shm")},
    ),
    Case(
        "shm-missing",
        "/dev/shm does not exist; the engine's processes share memory there",
        "mount a tmpfs at /dev/shm",
        level="warning",
        facts={"shm": Space(64 * MIB, 60 * MIB, 100, writable=True, nearest="/dev")},
    ),
    Case(
        "address-missing",
        "10.0.0.9 is not an address of this host; it has 10.0.0.1 (eth0), 192.168.7.1 (eth1)",
        "correct `address:` in the inventory, or check that `ssh:` leads to the host that is meant",
        host={"address": "10.0.0.9"},
    ),
    Case(
        "name-unknown",
        "n01.lab, n02.lab cannot be resolved here",
        "give `address:` in the inventory, or add the names to /etc/hosts or the DNS",
        facts={"resolved": {"n01.lab": (), "n02.lab": ()}},
        host={"address": "n01.lab"},
        process={"connects": {"rendezvous": "n02.lab:5000"}},
    ),
    Case(
        "family-missing",
        "[fd00::9]:5000 cannot be reached from here: this host has no IPv6 address; "
        "it has 10.0.0.1 (eth0), 192.168.7.1 (eth1)",
        "give all hosts `address:` of one family in the inventory, or this host an address of both",
        process={"connects": {"rendezvous": "[fd00::9]:5000"}},
    ),
    Case(
        "family-missing",
        "n02.lab:5000 cannot be reached from here: this host has no IPv4 address; it has fd00::1 (eth0)",
        "give all hosts `address:` of one family in the inventory, or this host an address of both",
        facts={"interfaces": {"lo": ("127.0.0.1",), "eth0": ("fd00::1",)}, "resolved": {"n02.lab": ("10.0.0.2",)}},
        host={"address": "fd00::1"},
        process={"address": "fd00::1", "connects": {"rendezvous": "n02.lab:5000"}},
    ),
    Case(
        "nic-missing",
        "GLOO_SOCKET_IFNAME names enp26s0f0, which this host does not have; it has lo, eth0, eth1",
        "set `nic: eth0` for this host in the inventory",
        process={"env": {"GLOO_SOCKET_IFNAME": "enp26s0f0"}},
    ),
    Case(
        "nic-address",
        "GLOO_SOCKET_IFNAME names eth1, but 10.0.0.1 is an address of eth0",
        "set `nic: eth0` for this host in the inventory",
        level="warning",
        process={"env": {"GLOO_SOCKET_IFNAME": "eth1"}},
    ),
    Case(
        "port-taken",
        "10.0.0.1:30000 is taken by pid 4711 (python3 -m http.server); "
        "[::1]:30001 is taken by a process that only root can name",
        "end that process (`ss -ltnp` lists them), or plan other ports",
        listening=(
            {"address": "10.0.0.1", "port": 30000, "pid": 4711, "command": "python3 -m http.server"},
            {"address": "::1", "port": 30001, "pid": None, "command": None},
        ),
    ),
    Case(
        "port-ephemeral",
        "planned ports in this host's ephemeral range 32768-60999: 40000,40002 "
        "(an outgoing connection may hold one at the start)",
        "plan ports outside it, or reserve them: sysctl -w net.ipv4.ip_local_reserved_ports=40000,40002",
        level="warning",
        facts={"reserved": (40001,)},
        process={"listens": {"http": 40000, "bootstrap": 40001, "rendezvous": 40002, "grpc": None}},
    ),
    Case(
        "proxy",
        "http_proxy=http://***@proxy:3128 is set for processes here, and no_proxy does not cover 10.0.0.1,10.0.0.2",
        "add `no_proxy: 10.0.0.1,10.0.0.2` to engine.env: warm-up and calls between ranks would go to the proxy",
        level="warning",
        facts={"proxies": {"http_proxy": "http://***@proxy:3128", "no_proxy": "localhost,.corp"}},
        process={"connects": {"rendezvous": "10.0.0.2:5000"}},
    ),
]


def test_a_host_that_fits_has_no_findings() -> None:
    assert findings(a_plan(), fitting()) == []


@pytest.mark.parametrize("case", CASES, ids=[f"{i:02d}-{case.code}" for i, case in enumerate(CASES)])
def test_each_misfit_is_told_with_evidence_and_next_step(case: Case) -> None:
    found = [it for it in case.found() if it.code == case.code]
    assert [(it.level, it.host, it.message, it.hint) for it in found] == [(case.level, "n01", case.message, case.hint)]


@pytest.mark.parametrize("case", CASES, ids=[f"{i:02d}-{case.code}" for i, case in enumerate(CASES)])
def test_a_misfit_brings_no_other_errors_with_it(case: Case) -> None:
    """One cause, one error: nothing is told twice in other words."""
    assert {it.code for it in case.found() if it.level == "error"} <= {case.code}
