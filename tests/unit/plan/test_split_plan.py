"""What a plan with a prefill and decode split holds: roles, order, ports, router, tokenizers."""

from __future__ import annotations

import json

import pytest

from sgdeploy.plan.model import Plan, Process, SecretRef
from tests.unit.plan.conftest import BUCKETS, KUNPENG_PD, PD, Compile


def by_label(plan: Plan) -> dict[str, Process]:
    return {process.label: process for process in plan.processes}


def ref(name: str) -> SecretRef:
    return SecretRef(secret=f"env:{name}")


def flags_of(process: Process) -> dict[str, str]:
    """Give every long flag with its values in one text; a flag that comes twice has both."""
    found: dict[str, str] = {}
    name = ""
    for word in process.argv:
        if word.startswith("--"):
            name = word
            found[name] = f"{found[name]} |" if name in found else ""
        elif name:
            found[name] = f"{found[name]} {word}".strip()
    return found


def test_prefill_decode_and_router_in_their_order(compiled: Compile) -> None:
    plan = compiled(PD).plan
    assert compiled(PD).warnings == ()
    assert [process.id for process in plan.processes] == [
        "split/prefill/p1",
        "split/decode/d1",
        "split/decode/d2",
        "split/router",
    ]
    assert plan.stages == (("prefill", "decode"), ("router",))
    assert [host.host for host in plan.hosts] == ["p1", "d1", "d2", "gw"]
    assert [process.label for process in plan.leaders] == ["prefill/p1", "decode/d1", "router"]
    assert plan.lead_host.host == "p1"


def test_ranks_of_a_split(compiled: Compile) -> None:
    at = by_label(compiled(PD).plan)
    prefill, decode = at["prefill/p1"], at["decode/d1"]
    assert flags_of(prefill)["--disaggregation-mode"] == "prefill"
    assert flags_of(prefill)["--disaggregation-bootstrap-port"] == "8998"
    assert flags_of(decode)["--disaggregation-mode"] == "decode"
    assert "--disaggregation-bootstrap-port" not in flags_of(decode)
    assert prefill.listens == {"http": 30000, "bootstrap": 8998, "rendezvous": 25000}
    assert decode.listens == {"http": 30000, "bootstrap": None, "rendezvous": 26000}
    assert at["decode/d2"].listens == {"http": 30000, "bootstrap": None}
    assert prefill.connects == {"rendezvous": "10.0.1.1:25000"}
    assert decode.connects == {"rendezvous": "10.0.1.3:26000", "bootstrap": "10.0.1.1:8998"}
    assert prefill.wait_for == decode.wait_for == ()


def test_the_router_in_full(compiled: Compile) -> None:
    plan = compiled(PD).plan
    router = by_label(plan)["router"]
    assert (router.role, router.instance, router.unit, router.key) == ("router", None, "router", "router")
    assert (router.host, router.address, router.node_rank, router.leader) == ("gw", "10.0.1.9", None, True)
    assert router.argv == (
        *("python", "-m", "sglang_router.launch_router", "--host", "10.0.1.9", "--pd-disaggregation"),
        *("--prefill", "http://10.0.1.1:30000", "8998", "--decode", "http://10.0.1.3:30000"),
        *("--health-check-interval-secs", "10", "--health-check-timeout-secs", "30"),
        *("--worker-startup-timeout-secs", "2700"),
    )
    assert router.listens == {"http": 30000, "metrics": 29000}
    assert router.connects == {"prefill": "10.0.1.1:30000", "decode": "10.0.1.3:30000"}
    assert router.wait_for == ("prefill", "decode")
    assert router.health.model_dump() == {"alive": True, "milestones": "router", "http": "/health"}
    assert (router.cores, router.log, router.secret_config) == (None, "router.log", None)


def test_the_router_is_the_front_door(compiled: Compile) -> None:
    door = compiled(PD, "router.port=31000", "engine.flags.api-key=${env:KEY}").plan.front_door
    assert (door.host, door.url, door.model) == ("gw", "http://10.0.1.9:31000", "tiny")
    assert door.api_key == ref("KEY")
    assert [worker.model_dump() for worker in door.workers] == [
        {"url": "http://10.0.1.1:30000", "role": "prefill", "unit": "prefill", "bootstrap": 8998},
        {"url": "http://10.0.1.3:30000", "role": "decode", "unit": "decode", "bootstrap": None},
    ]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["router.port=31000"], {"--port": "31000"}),
        (["router.policy=round_robin"], {"--policy": "round_robin"}),
        (["router.decode_policy=random"], {"--decode-policy": "random"}),
        (["health.timeout=1h"], {"--worker-startup-timeout-secs": "3600"}),
        (["health.timeout=90.5"], {"--worker-startup-timeout-secs": "91"}),
        (["router.flags.health_check_interval_secs=2"], {"--health-check-interval-secs": "2"}),
        (["router.flags.retry-max-retries=1"], {"--retry-max-retries": "1"}),
        (["router.flags.worker-startup-timeout-secs=null"], {"--worker-startup-timeout-secs": None}),
        (["router.flags.prometheus-port=29100"], {"--prometheus-port": "29100"}),
    ],
)
def test_settings_of_the_router(compiled: Compile, overrides: list[str], expected: dict[str, str | None]) -> None:
    flags = flags_of(by_label(compiled(PD, *overrides).plan)["router"])
    assert {name: flags.get(name) for name in expected} == expected


def test_the_metrics_port_that_a_flag_moves_is_planned(compiled: Compile) -> None:
    router = by_label(compiled(PD, "router.flags.prometheus-port=29100").plan)["router"]
    assert router.listens == {"http": 30000, "metrics": 29100}


def test_which_program_the_router_is(compiled: Compile) -> None:
    def start(*overrides: str) -> tuple[str, ...]:
        return by_label(compiled(PD, *overrides).plan)["router"].argv[:3]

    assert start("engine.python=/v/python") == ("/v/python", "-m", "sglang_router.launch_router")
    assert start("engine.python=/v/python", "router.python=/r/python")[0] == "/r/python"
    assert start("router.binary=/opt/sgl-model-gateway")[:2] == ("/opt/sgl-model-gateway", "--host")


def test_cores_of_the_router(compiled: Compile) -> None:
    def cores(text: str, *overrides: str) -> tuple[int, ...] | None:
        return by_label(compiled(text, *overrides).plan)["router"].cores

    assert cores(KUNPENG_PD) == (228,)
    assert cores(KUNPENG_PD, "router.cores=570-572,9") == (9, 570, 571, 572)
    assert cores(KUNPENG_PD, "router.cores=[1, 2]") == (1, 2)
    assert cores(KUNPENG_PD, "router.cores=any") is None
    assert cores(KUNPENG_PD, "node.pin=false") is None
    assert cores(PD, "router.cores=3") == (3,)


def test_environment_of_the_router(compiled: Compile) -> None:
    overrides = ["engine.env.A=1", "router.env.B=2", "router.env.SGLANG_LOG_MS=null", "router.env.T=${env:TOKEN}"]
    at = by_label(compiled(KUNPENG_PD, *overrides).plan)
    env = at["router"].env
    assert (env["A"], env["B"], env["T"]) == ("1", "2", ref("TOKEN"))
    assert "SGLANG_LOG_MS" not in env
    assert "B" not in at["decode/10.0.0.5/r00"].env
    assert not {"WORLD_SIZE", "MASTER_ADDR", "TP_SIZE", "MODEL_PATH"} & set(env)
    assert env["GLOO_SOCKET_IFNAME"] == "enp26s0f0"


def test_two_buckets_begin_with_the_short_one_however_they_are_written(compiled: Compile) -> None:
    found = compiled(BUCKETS)
    assert found.warnings == ()
    assert found.plan.stages == (("prefill/short", "prefill/long", "decode"), ("router",))
    assert [worker.unit for worker in found.plan.front_door.workers] == ["prefill/short", "prefill/long", "decode"]
    router = by_label(found.plan)["router"]
    flags = flags_of(router)
    assert flags["--prefill"] == "http://10.0.1.1:30000 8998 | http://10.0.1.2:30000 8998"
    assert flags["--prefill-policy"] == "bucket"
    assert flags["--balance-abs-threshold"] == "1000000000"
    assert router.wait_for == ("prefill/short", "prefill/long", "decode")


def test_the_thresholds_of_two_buckets_unless_said_otherwise(compiled: Compile) -> None:
    flags = flags_of(by_label(compiled(BUCKETS, "router.bucket=null").plan)["router"])
    assert flags["--balance-abs-threshold"] == "64"
    assert flags["--balance-rel-threshold"] == "1.5"
    assert flags["--bucket-adjust-interval-secs"] == "5"


def test_grouped_routing_in_place_of_moving_buckets(compiled: Compile) -> None:
    overrides = ["router.version=kunpeng", "router.groups={length_threshold: 2000}"]
    found = compiled(BUCKETS, *overrides)
    flags = flags_of(by_label(found.plan)["router"])
    assert (flags["--prefill-short-count"], flags["--prefill-length-threshold"]) == ("1", "2000")
    assert found.warnings == ()


def test_buckets_among_any_number_of_prefills(compiled: Compile) -> None:
    overrides = ["router.prefill_policy=bucket", "router.bucket.balance_abs_threshold=1000000000"]
    flags = flags_of(by_label(compiled(KUNPENG_PD, *overrides).plan)["router"])
    assert flags["--prefill"].count("http://") == 3
    assert flags["--prefill-policy"] == "bucket"


def test_ports_of_several_instances_never_meet(compiled: Compile) -> None:
    plan = compiled(KUNPENG_PD).plan
    at = by_label(plan)
    meetings = [at[label].listens["rendezvous"] for label in (p.label for p in plan.leaders) if label != "router"]
    assert meetings == [5000, 5020, 5200, 5010]
    assert [worker.bootstrap for worker in plan.front_door.workers] == [9001, 9001, 9001, None]


def test_instances_that_share_a_host_on_purpose(compiled: Compile) -> None:
    text = PD.replace("prefill: {hosts: p1}", "prefill:\n  a: {hosts: p1, cores: 0-3}\n  b: {hosts: p1, cores: 4-7}")
    found = compiled(text, "prefill.b.memory_nodes=1")
    assert found.warnings == ()
    a, b = by_label(found.plan)["prefill/a/p1"], by_label(found.plan)["prefill/b/p1"]
    assert (a.cores, b.cores, b.memory_nodes) == ((0, 1, 2, 3), (4, 5, 6, 7), (1,))
    assert a.listens == {"http": 30000, "bootstrap": 8998, "rendezvous": 25000}
    assert b.listens == {"http": 30100, "bootstrap": 8999, "rendezvous": 25100}
    assert by_label(found.plan)["decode/d1"].connects == {
        "rendezvous": "10.0.1.3:26000",
        "bootstrap/a": "10.0.1.1:8998",
        "bootstrap/b": "10.0.1.1:8999",
    }


def test_what_the_profile_sets_is_kept(compiled: Compile) -> None:
    overrides = ["prefill.b.rendezvous.port=6000", "prefill.b.port=31000", "prefill.b.bootstrap_port=9100"]
    leader = by_label(compiled(KUNPENG_PD, *overrides).plan)["prefill/b/10.0.0.2/r00"]
    assert leader.listens == {"http": 31000, "bootstrap": 9100, "rendezvous": 6000}


def test_devices_are_shared_evenly_by_the_ranks(compiled: Compile) -> None:
    at = by_label(compiled(KUNPENG_PD).plan)
    assert [at[f"decode/10.0.0.5/r{rank:02d}"].devices for rank in (0, 1, 2, 15)] == [
        ("roceroh0",),
        ("roceroh0",),
        ("roceroh1",),
        ("roceroh7",),
    ]
    inventory = 'inventory={ssh: {user: root}, defaults: {ib_devices: ["x", "y"]}}'
    at = by_label(compiled(KUNPENG_PD, inventory).plan)
    assert [at[f"decode/10.0.0.5/r{rank:02d}"].devices for rank in (7, 8)] == [("x",), ("y",)]
    at = by_label(compiled(KUNPENG_PD, inventory, "engine={launch: node, numa_copies: false}").plan)
    assert flags_of(at["decode/10.0.0.5"])["--disaggregation-ib-device"] == "x,y"
    assert "--disaggregation-ib-device" not in flags_of(by_label(compiled(PD).plan)["decode/d1"])


SEPARATE = "router.tokenizer=separate"


def test_separate_tokenizers_for_every_instance(compiled: Compile) -> None:
    plan = compiled(KUNPENG_PD, SEPARATE).plan
    at = by_label(plan)
    units = ("tokenizer/prefill-a", "tokenizer/prefill-b", "tokenizer/prefill-c", "tokenizer/decode")
    assert plan.stages == (("prefill/a", "prefill/b", "prefill/c", "decode"), units, ("router",))
    assert [at[unit].id for unit in units] == [f"dsv3/{unit}" for unit in units]
    assert [at[unit].listens for unit in units] == [
        {"http": 30001, "bootstrap": 9001},
        {"http": 30002, "bootstrap": 9002},
        {"http": 30003, "bootstrap": 9003},
        {"http": 30004, "bootstrap": None},
    ]
    assert {at[unit].host for unit in units} == {"10.0.0.9"}
    assert [at[unit].wait_for for unit in units] == [("prefill/a",), ("prefill/b",), ("prefill/c",), ("decode",)]
    assert at["router"].wait_for == units
    server = at["tokenizer/prefill-b"]
    assert (server.role, server.instance, server.leader, server.cores) == ("tokenizer", "prefill-b", True, None)
    assert server.connects == {"rendezvous": "10.0.0.2:5020"}
    assert server.env["LD_PRELOAD"] == "/opt/lib/libpthread_hook.so"
    assert server.health.model_dump() == {"alive": True, "milestones": "engine", "http": "/health"}
    assert flags_of(server)["--disaggregation-bootstrap-port"] == "9002"


def test_no_prefill_is_asked_where_it_serves_no_http(compiled: Compile) -> None:
    """The reference sends long prompts to a leader that opens no HTTP."""
    plan = compiled(KUNPENG_PD, SEPARATE).plan
    at = by_label(plan)
    assert [worker.url for worker in plan.front_door.workers] == [f"http://10.0.0.9:{30001 + n}" for n in range(4)]
    assert [worker.unit for worker in plan.front_door.workers] == list(at["router"].wait_for)
    for leader in (process for process in plan.leaders if process.node_rank is not None):
        assert leader.listens["http"] is None
        assert leader.listens["bootstrap"] is None
        assert leader.health.model_dump() == {"alive": True, "milestones": "engine-follower", "http": None}
        assert leader.env["SGLANG_SKIP_HTTP"] == leader.env["SGLANG_ENABLE_TOKENIZER_SEPERATE"] == "1"
    bootstraps = [
        flags_of(at[f"prefill/{name}"])["--disaggregation-bootstrap-port"]
        for name in ("a/10.0.0.1/r00", "b/10.0.0.2/r00", "c/10.0.0.4/r00")
    ]
    assert bootstraps == ["9001", "9002", "9003"]


def test_tokenizers_take_over_what_is_about_requests(compiled: Compile) -> None:
    overrides = (
        SEPARATE,
        "engine.flags={api-key: '${env:KEY}', page-size: 64, reasoning-parser: deepseek-r1}",
        "router.tokenizers={port: 30101, flags: {tokenizer-worker-num: 4}, env: {X: y}}",
    )
    at = by_label(compiled(KUNPENG_PD, *overrides).plan)
    server = at["tokenizer/decode"]
    flags = flags_of(server)
    assert (flags["--reasoning-parser"], flags["--tokenizer-worker-num"], flags["--port"]) == (
        "deepseek-r1",
        "4",
        "30104",
    )
    assert "--page-size" not in flags
    assert server.secret_config is not None
    assert server.secret_config.path == "secrets/tokenizer-decode.yaml"
    assert server.secret_config.values == {"api-key": ref("KEY")}
    assert server.env["X"] == "y"
    assert "X" not in at["router"].env


def test_tokenizers_apart_on_plain_nodes_of_the_fork(compiled: Compile) -> None:
    at = by_label(compiled(PD, SEPARATE, "engine.version=kunpeng").plan)
    assert at["prefill/p1"].env["SGLANG_SKIP_HTTP"] == "1"
    assert at["tokenizer/prefill"].env["SGLANG_LAUNCH_HTTP_ONLY"] == "1"
    assert "SGLANG_LAUNCH_HTTP_ONLY" not in at["router"].env
    assert "SGLANG_ENABLE_TOKENIZER_SEPERATE" not in by_label(compiled(PD).plan)["prefill/p1"].env


def test_what_cpus_need_for_a_split(compiled: Compile) -> None:
    at = by_label(compiled(PD).plan)
    for label in ("prefill/p1", "decode/d1"):
        flags = flags_of(at[label])
        assert flags["--disaggregation-transfer-backend"] == "mooncake_tcp"
        assert {"--disable-radix-cache", "--disable-overlap-schedule"} <= set(flags)
    assert flags_of(at["decode/d1"])["--disaggregation-decode-retraction-backup"] == "cpu_tensor"
    assert "--disaggregation-decode-retraction-backup" not in flags_of(at["prefill/p1"])


def test_a_rehearsal_reads_no_tokenizer(compiled: Compile) -> None:
    real = by_label(compiled(KUNPENG_PD).plan)["router"]
    rehearsed = compiled(KUNPENG_PD, "engine.executable=rehearsal", SEPARATE).plan
    assert flags_of(real)["--model-path"] == "/opt/model"
    at = by_label(rehearsed)
    assert "--model-path" not in flags_of(at["router"])
    assert at["router"].argv[0] == "python"
    assert at["tokenizer/decode"].argv[:4] == ("python3", "-I", "-S", "engine.py")
    assert [len(host.files) for host in rehearsed.hosts] == [1, 1, 1, 1, 1, 1]
    kept = compiled(KUNPENG_PD, "engine.executable=rehearsal", "router.flags.model-path=/tiny").plan
    assert flags_of(by_label(kept)["router"])["--model-path"] == "/tiny"


def test_ipv6_addresses_are_bracketed_in_urls(compiled: Compile) -> None:
    plan = compiled(PD.replace("10.0.1.", "fd00::")).plan
    assert plan.front_door.workers[0].url == "http://[fd00::1]:30000"
    assert flags_of(by_label(plan)["router"])["--host"] == "fd00::9"


@pytest.mark.parametrize("text", [PD, BUCKETS, KUNPENG_PD])
@pytest.mark.parametrize("apart", ["inside", "separate"])
def test_a_split_plan_survives_its_json_and_has_unique_names(compiled: Compile, text: str, apart: str) -> None:
    plan = compiled(text, f"router.tokenizer={apart}", "engine.version=kunpeng").plan
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert len({process.id for process in plan.processes}) == len(plan.processes)
    assert len({(process.host, process.key) for process in plan.processes}) == len(plan.processes)
    assert len({(process.host, process.log) for process in plan.processes}) == len(plan.processes)
    assert [unit for stage in plan.stages for unit in stage] == list(dict.fromkeys(p.unit for p in plan.processes))
