"""What a plan refuses before any host is touched: each check with its exact words, at its place."""

from __future__ import annotations

import pytest

from sgdeploy.plan.check_ports import Claim, check_claims
from sgdeploy.render.quote import RenderError, variable
from tests.unit.plan.conftest import CPU, KUNPENG, NAMED, Compile, Refuse


@pytest.mark.parametrize(
    ("overrides", "code", "path", "message", "hint"),
    [
        (
            ['native.hosts="10.0.0. | 1-15"'],
            "sizes-divide",
            "native.parallel.tp",
            "256 ranks (tensor parallel 256) do not divide over 15 nodes: 17 on each would leave 1 over",
            "what fits: 16 nodes (16 ranks each), `tp: 240` on 15 nodes",
        ),
        (
            ["native.parallel.pp=2"],
            "ranks-per-node",
            "native.parallel.tp",
            (
                "32 ranks on each node (tensor parallel 256 times 2 pipeline stages over 16 nodes), "
                "but a kunpeng-920f node holds 16, one per compute NUMA node"
            ),
            (
                "tensor parallel is the width of one pipeline stage: set `tp: 128` (16 ranks on each node), "
                "or give the instance 32 nodes (16 ranks each)"
            ),
        ),
        (
            ['native.hosts="10.0.0. | 1-4"'],
            "ranks-per-node",
            "native.parallel.tp",
            (
                "64 ranks on each node (tensor parallel 256 over 4 nodes), "
                "but a kunpeng-920f node holds 16, one per compute NUMA node"
            ),
            "set `tp: 64` (16 ranks on each node), or give the instance 16 nodes (16 ranks each)",
        ),
        (
            ["native.parallel.pp=3", "native.parallel.tp=80", "native.parallel.dp=16"],
            "stages-divide",
            "native.parallel.pp",
            "3 pipeline stages and 16 nodes do not divide by each other",
            "a stage takes whole nodes, or a node takes whole stages",
        ),
        (
            ["native.parallel.dp=12"],
            "dp-divides",
            "native.parallel.dp",
            "tensor parallel 256 does not divide by 12 data parallel groups",
            "with attention data parallelism `dp` divides `tp`: 8 or 16 would do",
        ),
        (
            ["native.parallel.ep=24"],
            "ep-divides",
            "native.parallel.ep",
            "tensor parallel 256 does not divide by expert parallel 24",
            "`ep` divides `tp`, and is mostly equal to it: 16 or 32 would do",
        ),
        (
            ["engine.env.TP_SIZE=64", "native.env.MASTER_PORT=5000", "native.env.EP_SIZE=256"],
            "size-variable",
            "native.env.MASTER_PORT",
            (
                "native is planned with MASTER_PORT=5010, TP_SIZE=256, and the environment says "
                "MASTER_PORT=5000, TP_SIZE=64: libraries would believe that"
            ),
            "remove what the environment says; sgdeploy derives it from `hosts`, `parallel` and `rendezvous`",
        ),
        (
            ["native.flags.enable-dp-attention=false", "native.parallel.dp=2"],
            "dp-nodes",
            "native.parallel.dp",
            "2 data parallel groups over 16 nodes need attention data parallelism",
            "set the flag `enable-dp-attention: true`, or `dp: 1`",
        ),
        (
            ["native.leader=10.0.0.17"],
            "leader-unknown",
            "native.leader",
            "leader `10.0.0.17` is not among the 16 hosts of the instance",
            "did you mean `10.0.0.1`?",
        ),
        (
            ["native.port=65530"],
            "port-range",
            "native.port",
            "the HTTP ports of native would be 65530-65545, above 65535",
            "at most 65520 leaves room for all",
        ),
        (
            ["native.port=5020"],
            "port-clash",
            "native.rendezvous.port",
            (
                "the rendezvous port of native and those the engine derives from it (5010-5048) "
                "and the HTTP ports of native (5020-5035) overlap on 10.0.0.1"
            ),
            "move one of them: 5036 is the next port after the HTTP ports of native",
        ),
        (
            ["native.flags.chunked-prefill-size=4000"],
            "chunked-prefill",
            "native.flags.chunked-prefill-size",
            "chunked-prefill-size 4000 is no multiple of 1024 (page-size 64 times 16 data parallel groups)",
            "set 3072 or 4096, or -1 to switch it off",
        ),
        (
            ["engine.flags.chunked_prefill_size=0"],
            "chunked-prefill",
            "engine.flags.chunked_prefill_size",
            "chunked-prefill-size 0 is no multiple of 1024 (page-size 64 times 16 data parallel groups)",
            "set 1024, or -1 to switch it off",
        ),
        (
            ["engine.env.SGLANG_KUNPENG_WEIGTHS_HBW_POOL_SIZE_MB=5000"],
            "hugepages-small",
            "engine.env.SGLANG_KUNPENG_WEIGTHS_HBW_POOL_SIZE_MB",
            (
                "2020 hugepages of 2 MiB hold 4040 MiB on each on-package memory node, "
                "less than SGLANG_KUNPENG_WEIGTHS_HBW_POOL_SIZE_MB = 5000"
            ),
            (
                "set `platform_settings.layout.hbm_pages: 2500` or more, "
                "or SGLANG_KUNPENG_WEIGTHS_HBW_POOL_SIZE_MB to at most 4040"
            ),
        ),
        (
            ['engine.version="0.5.23"'],
            "launch-rank",
            "engine.launch",
            "engine 0.5.23 cannot be started as one process per rank: it has no --tp-rank-in-node",
            "set `launch: node`, or `version: kunpeng` where the nodes have the Kunpeng fork",
        ),
        (
            ["platform_settings.layout={hbm_offset: 8}"],
            "pages-clash",
            "platform_settings",
            (
                "native/10.0.0.1/r00 and native/10.0.0.1/r08 ask for 2020 and 0 pages in "
                "/sys/devices/system/node/node8/hugepages/hugepages-2048kB/nr_hugepages"
            ),
            "correct `platform_settings.layout`",
        ),
    ],
)
def test_kunpeng(refused: Refuse, overrides: list[str], code: str, path: str, message: str, hint: str) -> None:
    problem = next(problem for problem in refused(KUNPENG, *overrides) if problem.code == code)
    assert problem.message == message
    assert problem.hint == hint
    assert ".".join(str(key) for key in problem.path) == path
    assert problem.place is not None
    assert problem.place.line >= 1


def test_whole_pages_of_each_group_are_fine(compiled: Compile) -> None:
    for size in (-1, 1024, 4096):
        assert compiled(KUNPENG, f"native.flags.chunked-prefill-size={size}").warnings == ()


def test_wrong_sizes_are_one_mistake(refused: Refuse) -> None:
    assert [p.code for p in refused(KUNPENG, 'native.hosts="10.0.0. | 1-15"')] == ["sizes-divide"]
    assert [p.code for p in refused(KUNPENG, "native.parallel.pp=2")] == ["ranks-per-node"]


@pytest.mark.parametrize(
    ("text", "overrides", "code", "message"),
    [
        (NAMED, ["native.b.hosts=[n2, n3]"], "host-shared", "n2 belongs to instance `native/a` already"),
        (NAMED, ["native.b.hosts=pair"], "host-shared", "n1, n2 belong to instance `native/a` already"),
        (
            CPU,
            ["inventory.groups.pair=[{host: n1, address: 10.0.1.1}, {host: n2, address: 10.0.1.1}]"],
            "address-twice",
            "hosts `n1` and `n2` have the same data address 10.0.1.1",
        ),
        (
            CPU,
            ["inventory.groups.pair=[{host: n1, address: 0.0.0.0}, n2]"],
            "address-unspecified",
            "0.0.0.0 is no data address: others cannot connect to it (n1 0.0.0.0)",
        ),
        (
            CPU,
            ['inventory.groups.pair=[{host: n1, address: "fd00::1"}, {host: n2, address: "FD00:0::1"}]'],
            "address-twice",
            "hosts `n1` and `n2` have the same data address fd00::1",
        ),
        (
            CPU,
            ['inventory.groups.pair=[{host: n1, address: "::"}, n2]'],
            "address-unspecified",
            ":: is no data address: others cannot connect to it (n1 ::)",
        ),
        (
            CPU,
            ["native.parallel.tp=4", 'platform_settings={threads_bind: "0|1|2"}'],
            "threads-bind",
            "SGLANG_CPU_OMP_THREADS_BIND has 3 core lists for 2 ranks on each node",
        ),
        (
            CPU,
            ["native.parallel.tp=3"],
            "sizes-divide",
            "3 ranks (tensor parallel 3) do not divide over 2 nodes: 1 on each would leave 1 over",
        ),
        (
            CPU,
            ["platform=cpus"],
            "platform-unknown",
            "unknown platform `cpus`",
        ),
        (CPU, ["engine.version=kunpen"], "engine-version-unknown", "unknown engine version `kunpen`"),
    ],
)
def test_cpu(refused: Refuse, text: str, overrides: list[str], code: str, message: str) -> None:
    (problem,) = refused(text, *overrides)
    assert (problem.code, problem.message) == (code, message)


@pytest.mark.parametrize(
    ("text", "overrides", "code", "message"),
    [
        (
            KUNPENG,
            ["engine.launch=node"],
            "numa-copies",
            "numa_copies has no effect without `launch: rank`: one process per node runs the plain engine",
        ),
        (
            CPU,
            ["engine.numa_copies=true"],
            "numa-copies",
            "numa_copies has no effect on platform cpu: it has no packed copies",
        ),
        (
            KUNPENG,
            ["health={timeout: 20m}"],
            "warmup-limit",
            "the engine may warm up for 1600 s (SGLANG_WARMUP_TIMEOUT), but bring-up ends after 1200 s",
        ),
        (
            CPU,
            ["health={timeout: 1m, stall: 2m}"],
            "stall-limit",
            "a stall of 120 s is never noticed: bring-up ends after 60 s",
        ),
        (
            KUNPENG,
            ["native.port=32760"],
            "port-ephemeral",
            (
                "the HTTP ports of native (32760-32775) may be taken by chance: "
                "Linux uses 32768-60999 for outgoing connections"
            ),
        ),
        (
            CPU,
            ["engine.flags=null"],
            "memory-unbounded",
            "neither mem-fraction-static nor max-total-tokens bounds the KV cache on a CPU node",
        ),
        (
            CPU,
            ["inventory.groups.pair=[{host: n1, address: 127.0.1.1}, {host: n2, address: 127.0.1.2}]"],
            "address-loopback",
            (
                "2 hosts reached over ssh have a loopback data address (n1 127.0.1.1, n2 127.0.1.2): "
                "they meet the others only if all hosts are one machine"
            ),
        ),
    ],
)
def test_what_is_only_doubtful_is_a_warning(
    compiled: Compile, text: str, overrides: list[str], code: str, message: str
) -> None:
    (warning,) = compiled(text, *overrides).warnings
    assert (warning.level, warning.code, warning.message) == ("warning", code, message)


def test_loopback_addresses_of_local_hosts_are_fine(compiled: Compile) -> None:
    local = CPU.replace("inventory:\n", "inventory:\n  defaults: {connection: local}\n")
    hosts = "inventory.groups.pair=[{host: n1, address: 127.0.1.1}, {host: n2, address: 127.0.1.2}]"
    assert compiled(local, hosts).warnings == ()


def test_a_stall_that_nobody_set_may_be_longer_than_the_whole(compiled: Compile) -> None:
    assert compiled(CPU, "health={timeout: 1m}").warnings == ()


def test_the_bound_on_memory_is_missed_where_it_would_stand(compiled: Compile) -> None:
    (warning,) = compiled(CPU, "engine.flags=null").warnings
    assert warning.path == ("engine", "flags")


def test_the_good_profiles_have_no_warning(compiled: Compile) -> None:
    for text in (KUNPENG, CPU, NAMED):
        assert compiled(text).warnings == ()


def test_everything_is_told_at_once_in_the_order_of_lines(refused: Refuse) -> None:
    text = """
version: 1
name: x
topology: native
platform: kunpeng-920f
platform_settings: {cond_env: y}
model: {path: /m}
engine:
  version: kunpeng
  flags: {page-size: big, hots: 1, tp: 8}
native:
  hosts: [a, b]
  leader: c
  prot: 30000
  parallel: {tp: many}
  flags: {attention-backend: kunpeng}
"""
    found = [(p.place.line if p.place else 0, p.code) for p in refused(text)]
    assert found == [
        (6, "key-unknown"),
        (10, "flag-type"),
        (10, "flag-unknown"),
        (10, "flag-owned"),
        (14, "key-unknown"),
        (15, "value-type"),
        (16, "flag-choice"),
    ]


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("host", "each host's data address comes from the inventory (`address`)"),
        ("port", "set `port` of the instance"),
        ("tp", "set `parallel.tp` of the instance"),
        ("dp", "set `parallel.dp` of the instance"),
        ("data_parallel_size", "set `parallel.dp` of the instance"),
        ("expert-parallel-size", "set `parallel.ep` of the instance"),
        ("model", "set `model.path`, or `model_path` of the instance"),
        ("served-model-name", "set `model.served_name`"),
        ("nccl-init-addr", "set `rendezvous.port` of the instance; the address is the leader's"),
        ("tp-rank-in-node", "`engine.launch: rank` gives each rank its own"),
        ("disaggregation-bootstrap-port", "set `bootstrap_port` of the instance"),
        ("config", "write the file's settings as flags, so that they are checked with the others"),
    ],
)
@pytest.mark.parametrize("where", ["engine", "native"])
def test_flags_that_the_plan_owns_name_the_key_to_set(refused: Refuse, where: str, flag: str, hint: str) -> None:
    (problem,) = refused(KUNPENG, f"{where}.flags.{flag}=1")
    assert (problem.code, problem.hint) == ("flag-owned", hint)
    assert problem.message == f"`{flag}` is set by the plan and cannot be a flag"


def test_a_secret_in_plain_text_is_refused_once(refused: Refuse) -> None:
    (problem,) = refused(CPU, "engine.flags.api-key=hunter2")
    assert problem.code == "flag-secret-plain"
    assert "hunter2" not in f"{problem.message}{problem.hint}"


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        *((name, "bash") for name in ("UID", "EUID", "RANDOM", "SHLVL", "BASHOPTS", "BASH_ARGV", "SECONDS", "_")),
        *((name, "sgdeploy") for name in ("SGDEPLOY_MARK", "SGDEPLOY_SECRET_X", "run_dir")),
    ],
)
def test_a_variable_that_no_script_can_carry_is_refused_at_its_place(refused: Refuse, name: str, owner: str) -> None:
    (problem,) = refused(CPU.replace("parallel: {tp: 2}", f"parallel: {{tp: 2}}\n  env:\n    {name}: 1"))
    assert (problem.code, problem.path) == ("env-reserved", ("native", "env", name))
    assert problem.message == f"`{name}` belongs to {owner}, so a value would not reach the process"
    assert problem.place is not None
    assert (problem.place.line, problem.place.column) == (16, 5)
    with pytest.raises(RenderError, match=f"the variable {name} belongs to {owner}"):
        variable(name)


def test_no_script_takes_a_secret_from_what_bash_keeps(refused: Refuse) -> None:
    (problem,) = refused(CPU, "engine.env.API_KEY=${env:UID}")
    assert (problem.code, problem.path) == ("env-reserved", ("engine", "env", "API_KEY"))
    assert problem.message == "no script can take a secret from `UID`: it belongs to bash"


def test_what_merely_looks_alike_can_be_set(compiled: Compile) -> None:
    names = ("BASH_ENV", "UID_MAP", "MY_RANDOM", "SGDEPLOY_REHEARSE_FAIL")
    env = compiled(CPU, *(f"native.env.{name}=1" for name in names)).plan.processes[0].env
    assert set(names) <= set(env)


def test_titles_must_stay_readable(refused: Refuse, compiled: Compile) -> None:
    (problem,) = refused(CPU, "engine.env.SPT_NOENV=0")
    assert problem.code == "env-reserved"
    assert compiled(CPU, "engine.env.SPT_NOENV=1").warnings == ()


def test_claims_on_different_hosts_do_not_clash() -> None:
    def claim(what: str, first: int, last: int, *hosts: str) -> Claim:
        return Claim(what, first, last, frozenset(hosts), ())

    assert check_claims([claim("a", 1, 9, "n1"), claim("b", 5, 5, "n2")]) == []
    (problem,) = check_claims([claim("a", 1, 9, "n1", "n2", "n3"), claim("b", 9, 9, "n2", "n3")])
    assert problem.message == "b (9) and a (1-9) overlap on n2 and 1 more host"
