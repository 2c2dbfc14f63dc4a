"""What a plan holds for each process, and that it is the same every time."""

from __future__ import annotations

import json

import pytest

from sgdeploy.plan.model import Plan, Process, SecretRef
from tests.unit.plan.conftest import CPU, KUNPENG, KUNPENG_PD, NAMED, PD, Compile, Refuse


def by_label(plan: Plan) -> dict[str, Process]:
    return {process.label: process for process in plan.processes}


def ref(name: str) -> SecretRef:
    return SecretRef(secret=f"env:{name}")


def value_after(process: Process, flag: str) -> str:
    return process.argv[process.argv.index(flag) + 1]


def test_a_rank_of_kunpeng_in_full(compiled: Compile) -> None:
    plan = compiled(KUNPENG).plan
    rank = by_label(plan)["native/10.0.0.2/r07"]
    assert rank.id == "dsv3/native/10.0.0.2/r07"
    assert (rank.role, rank.instance, rank.host, rank.address) == ("native", None, "10.0.0.2", "10.0.0.2")
    assert (rank.node_rank, rank.rank_in_node, rank.leader) == (1, 7, False)
    assert rank.argv[0].endswith("/sglang_server_tp7/sglang_server")
    assert rank.argv[1:5] == ("--tp-rank-in-node", "7", "--port", "30007")
    assert value_after(rank, "--dist-init-addr") == "10.0.0.1:5010"
    assert rank.env["SPT_NOENV"] == "1"
    assert rank.listens == {"http": 30007, "bootstrap": None}
    assert rank.connects == {"rendezvous": "10.0.0.1:5010"}
    assert rank.log == "native-n001-r07.log"
    assert rank.wait_for == ()
    assert rank.cwd is None
    assert rank.health.model_dump() == {"alive": True, "milestones": "engine-follower", "http": None}
    leader = by_label(plan)["native/10.0.0.1/r00"]
    assert leader.leader
    assert leader.listens == {"http": 30000, "bootstrap": None, "rendezvous": 5010}
    assert leader.health.model_dump() == {"alive": True, "milestones": "engine", "http": "/health"}
    assert [process.label for process in plan.leaders] == ["native/10.0.0.1/r00"]


def test_hosts_and_the_rest_of_a_kunpeng_plan(compiled: Compile) -> None:
    plan = compiled(KUNPENG).plan
    assert (plan.name, plan.topology, plan.platform, plan.engine_version) == (
        "dsv3",
        "native",
        "kunpeng-920f",
        "kunpeng",
    )
    assert plan.stages == (("native",),)
    assert plan.limits.model_dump() == {"timeout": 2700.0, "stall": 600.0, "grace": 20.0}
    assert plan.front_door.model_dump() == {
        "host": "10.0.0.1",
        "address": "10.0.0.1",
        "port": 30000,
        "model": "/opt/model",
        "api_key": None,
        "workers": (),
    }
    host = plan.hosts[3]
    assert (host.host, host.user, host.run_dir, host.files) == (
        "10.0.0.4",
        "root",
        "/var/lib/sgdeploy/dsv3/10.0.0.4",
        (),
    )
    assert [module.name for module in host.modules] == ["sdma_dae"]
    node = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
    assert {pages.path: pages.value for pages in host.hugepages} == {
        node.format(number): 2020 if number > 15 else 0 for number in range(32)
    }


def test_one_process_per_node(compiled: Compile) -> None:
    plan = compiled(CPU).plan
    first, second = plan.processes
    assert [process.id for process in plan.processes] == ["tiny/native/n1", "tiny/native/n2"]
    assert first.argv == (
        "python",
        "-m",
        "sglang.launch_server",
        *("--port", "30000", "--host", "10.0.1.1", "--nnodes", "2", "--node-rank", "0"),
        *("--dist-init-addr", "10.0.1.1:25000", "--model-path", "/models/tiny", "--served-model-name", "tiny"),
        *("--tp-size", "2", "--device", "cpu", "--max-total-tokens", "8192"),
    )
    assert (first.cores, first.rank_in_node, first.hugepages) == (None, None, ())
    assert (first.log, second.log) == ("native-n000.log", "native-n001.log")
    assert first.env == {"SGLANG_USE_CPU_ENGINE": "1", "SPT_NOENV": "1", "SGLANG_HOST_IP": "10.0.1.1"}
    assert second.env["SGLANG_HOST_IP"] == "10.0.1.2"
    assert second.listens == {"http": 30000, "bootstrap": None}
    assert plan.hosts[0].run_dir == "~/.local/state/sgdeploy/tiny/n1"
    assert plan.front_door.model == "tiny"


def test_sudo_is_of_the_inventory_or_of_a_host_and_makes_the_run_folder_roots(compiled: Compile) -> None:
    hosts = "inventory.groups.pair=[{host: n1, address: 10.0.1.1, sudo: false}, {host: n2, address: 10.0.1.2}]"
    plan = compiled(CPU, "inventory.ssh={user: ops, sudo: true}", hosts).plan
    assert [(host.user, host.sudo, host.run_dir) for host in plan.hosts] == [
        ("ops", False, "~/.local/state/sgdeploy/tiny/n1"),
        ("ops", True, "/var/lib/sgdeploy/tiny/n2"),
    ]


def test_the_leader_becomes_node_rank_0(compiled: Compile) -> None:
    plan = compiled(CPU, "native.leader=n2").plan
    assert [(p.host, p.node_rank, p.leader) for p in plan.processes] == [("n2", 0, True), ("n1", 1, False)]
    assert value_after(plan.processes[1], "--dist-init-addr") == "10.0.1.2:25000"
    assert plan.front_door.host == "n2"


def test_named_instances_have_names_and_ports_of_their_own(compiled: Compile) -> None:
    plan = compiled(NAMED).plan
    assert plan.stages == (("native/a", "native/b"),)
    assert [process.id for process in plan.leaders] == ["tiny/native/a/n1", "tiny/native/b/n3"]
    assert [value_after(p, "--dist-init-addr") for p in plan.leaders] == ["10.0.1.1:25000", "10.0.1.3:25100"]
    assert [process.log for process in plan.leaders] == ["native-a-n000.log", "native-b-n000.log"]
    assert plan.leaders[1].instance == "b"


def test_layers_win_in_order_and_null_removes(compiled: Compile) -> None:
    def words(*overrides: str) -> str:
        return " ".join(compiled(KUNPENG, *overrides).plan.processes[0].argv)

    assert "--page-size 64" in words()
    assert "--page-size 32" in words("engine.flags.page_size=32")
    assert "--page-size 16" in words("engine.flags.page-size=32", "native.flags.page_size=16")
    assert "--page-size" not in words("native.flags.page-size=null")
    assert "--disable-radix-cache" not in words("native.flags.disable-radix-cache=false")
    assert "--disaggregation-bootstrap-port 9100" in words("native.bootstrap_port=9100")


def test_environment_layers(compiled: Compile) -> None:
    rank = compiled(
        KUNPENG,
        "engine.env.OMP_NUM_THREADS=2",
        "engine.env.KUPL_EXECUTOR_COUNT=31",
        "native.env.KUPL_EXECUTOR_COUNT=32",
        "native.env.PYTHONWARNINGS=null",
        "native.env.CPATH='/a/include::/b/include'",
        "native.env.LIBRARY_PATH=null",
        "native.env.LD_LIBRARY_PATH=/a/lib",
        "native.env.OMP_PROC_BIND=true",
        "native.env.GLOO_SOCKET_IFNAME=bond0",
        "native.env.HF_TOKEN=${env:MY_TOKEN}",
    ).plan.processes[0]
    assert (rank.env["OMP_NUM_THREADS"], rank.env["KUPL_EXECUTOR_COUNT"]) == ("2", "32")
    assert "PYTHONWARNINGS" not in rank.env
    assert rank.env_prepend == {
        "CPATH": ("/a/include", "/b/include", "/opt/kupl/include"),
        "INCLUDE": ("/opt/kupl/include",),
        "LD_LIBRARY_PATH": ("/a/lib",),
    }
    assert rank.env["OMP_PROC_BIND"] == "1"
    assert rank.env["GLOO_SOCKET_IFNAME"] == "bond0"
    assert rank.env["HF_TOKEN"] == ref("MY_TOKEN")


def test_secret_flags_travel_in_a_file(compiled: Compile) -> None:
    compiled_ = compiled(CPU, "engine.flags.api-key=${env:KEY}", "native.flags.admin-api-key=${env:ADMIN}")
    process = compiled_.plan.processes[1]
    assert process.secret_config is not None
    assert process.secret_config.path == f"secrets/{process.key}.yaml" == "secrets/native-n2.yaml"
    assert process.secret_config.values == {
        "api-key": ref("KEY"),
        "admin-api-key": ref("ADMIN"),
    }
    assert process.argv[-2:] == ("--config", "secrets/native-n2.yaml")
    assert process.in_run_dir == (len(process.argv) - 1,)
    assert not any("api-key" in word for word in process.argv)
    assert compiled_.plan.front_door.api_key == ref("KEY")
    assert compiled_.plan.secret_names == ("ADMIN", "KEY")


def test_a_program_instead_of_the_engine(compiled: Compile) -> None:
    plan = compiled(CPU, "engine.executable=/opt/bin/engine").plan
    assert plan.processes[0].argv[:2] == ("/opt/bin/engine", "--port")
    plan = compiled(CPU, "engine.executable=rehearsal").plan
    assert plan.processes[0].argv[:5] == ("python3", "-I", "-S", "engine.py", "--port")
    assert plan.processes[0].in_run_dir == (3,)
    assert [file.model_dump() for file in plan.hosts[0].files] == [
        {"path": "engine.py", "source": "rehearse/engine.py", "mode": "0755"}
    ]


def test_settings_of_node_and_activation(compiled: Compile) -> None:
    plan = compiled(
        KUNPENG,
        "node={run_dir: /scratch/, sysfs_root: /fake, pin: false, load_modules: false}",
        'engine.activate=["venv:/v"]',
        "engine.cwd=/work",
    ).plan
    assert plan.hosts[0].run_dir == "/scratch/dsv3/10.0.0.1"
    assert (plan.hosts[0].sysfs_root, plan.hosts[0].modules) == ("/fake", ())
    rank = plan.processes[5]
    assert (rank.cores, rank.activate, rank.cwd) == (None, ("venv:/v",), "/work")
    assert rank.hugepages[0].path.startswith("/sys/devices/system/node/node5/")


def test_ipv6_addresses_are_bracketed_where_a_port_follows(compiled: Compile) -> None:
    plan = compiled(CPU, 'inventory.groups.pair=[{host: n1, address: "fd00::1"}, {host: n2, address: "fd00::2"}]').plan
    assert value_after(plan.processes[1], "--host") == "fd00::2"
    assert value_after(plan.processes[1], "--dist-init-addr") == "[fd00::1]:25000"
    assert plan.processes[1].connects == {"rendezvous": "[fd00::1]:25000"}
    assert plan.processes[1].env["SGLANG_HOST_IP"] == "fd00::2"
    assert plan.front_door.url == "http://[fd00::1]:30000"


def test_an_ipv6_address_has_one_spelling(compiled: Compile) -> None:
    hosts = 'inventory.groups.pair=[{host: n1, address: "FD00:0:0::1"}, {host: n2, address: "fd00::2"}]'
    assert value_after(compiled(CPU, hosts).plan.processes[0], "--host") == "fd00::1"


@pytest.mark.parametrize("text", [KUNPENG, CPU])
def test_a_plan_survives_its_json_and_has_one_digest(compiled: Compile, text: str) -> None:
    plan = compiled(text, "native.env.T=${env:SECRET}").plan
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    assert again.digest == plan.digest == compiled(text, "native.env.T=${env:SECRET}").plan.digest
    assert plan.digest != compiled(text, "native.env.T=${env:OTHER}").plan.digest


def test_labels_logs_and_keys_are_unique_on_thousands_of_ranks(compiled: Compile) -> None:
    plan = compiled(KUNPENG, "native.hosts='n[001-256]'", "native.parallel.tp=4096").plan
    assert len(plan.processes) == 4096
    assert len({process.id for process in plan.processes}) == 4096
    assert len({process.log for process in plan.processes}) == 4096
    assert len({(process.host, process.key) for process in plan.processes}) == 4096
    assert len({id(process.env) for process in plan.processes}) == 256


def folders(plan: Plan) -> dict[str, str]:
    """Give label → model folder of every rank and tokenizer."""
    return {each.label: value_after(each, "--model-path") for each in plan.processes if "--model-path" in each.argv}


def test_a_pipeline_stage_loads_from_a_folder_of_its_own(compiled: Compile) -> None:
    """A split has one folder for each stage; ranks follow each other stage by stage."""
    plan = compiled(CPU, "model.path=/split/pp{stage}", "native.parallel.pp=2", "native.parallel.tp=1").plan
    assert folders(plan) == {"native/n1": "/split/pp0", "native/n2": "/split/pp1"}
    assert compiled(CPU, "model.path=/split/pp{stage}", "model.served_name=null").plan.front_door.model == "/split/pp0"


def test_stages_of_one_node_by_rank(compiled: Compile) -> None:
    """Variables that hold the folder follow it; what the profile says itself stays."""
    two = ("model.path=/split/pp{stage}", "prefill.b.parallel.pp=4", "prefill.b.parallel.tp=8")
    plan = compiled(KUNPENG_PD, *two).plan
    found = {label: folder for label, folder in folders(plan).items() if label.startswith("prefill/b/")}
    assert found["prefill/b/10.0.0.2/r07"] == "/split/pp0"
    assert found["prefill/b/10.0.0.2/r08"] == "/split/pp1"
    assert found["prefill/b/10.0.0.3/r00"] == "/split/pp2"
    assert found["prefill/b/10.0.0.3/r15"] == "/split/pp3"
    ranks = by_label(plan)
    assert all(ranks[label].env["MODEL_PATH"] == folder for label, folder in found.items())
    own = compiled(KUNPENG_PD, *two, "prefill.b.env.MODEL_PATH=/mine").plan
    assert {each.env["MODEL_PATH"] for each in own.processes if each.unit == "prefill/b"} == {"/mine"}


def test_instances_of_different_sizes_have_splits_of_their_own(compiled: Compile) -> None:
    plan = compiled(PD, "prefill.model_path=/split/prefill", "decode.model_path=/split/decode").plan
    assert folders(plan) == {
        "prefill/p1": "/split/prefill",
        "decode/d1": "/split/decode",
        "decode/d2": "/split/decode",
    }


def test_paths_that_no_process_could_follow(refused: Refuse) -> None:
    both = ("model.path=/split/pp{stage}", "native.parallel.pp=4", "native.parallel.tp=1")
    (problem,) = refused(CPU, *both)
    assert problem.code == "model-stages"
    assert problem.message == (
        "the process of each node holds 2 pipeline stages (4 stages over 2 nodes), "
        "and {stage} in its model path can be only one of them"
    )
    (typo,) = refused(CPU, "native.model_path=/split/{pp}")
    assert (typo.code, typo.message) == ("model-placeholder", "{pp} in a model path stands for nothing")
    assert (typo.hint, typo.path) == ("{stage} is the pipeline stage", ("native", "model_path"))
