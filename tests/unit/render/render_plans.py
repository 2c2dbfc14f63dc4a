"""Plans for the tests of this room, made by hand so that they depend on no other room."""

from __future__ import annotations

from typing import Any

from sgdeploy.plan.model import FrontDoor, Health, Hugepages, KernelModule, Limits, Plan, PlanHost, Process, SecretRef

_NODE = "/sys/devices/system/node"
_PAGES = "hugepages/hugepages-2048kB/nr_hugepages"


def pages(node: int, value: int) -> Hugepages:
    """One write to the 2 MiB pages of a NUMA node."""
    return Hugepages(path=f"{_NODE}/node{node}/{_PAGES}", value=value)


def secret(name: str) -> SecretRef:
    """Name a secret of the controller's environment."""
    return SecretRef(secret=f"env:{name}")


def plan_of(*processes: Process, hosts: tuple[PlanHost, ...] = ()) -> Plan:
    """Wrap processes into the smallest plan that holds them."""
    names = dict.fromkeys(process.host for process in processes)
    first = processes[0]
    return Plan(
        name="dsv3",
        topology="native",
        platform="cpu",
        engine_version="0.5.23",
        stages=(("native",),),
        hosts=hosts or tuple(PlanHost(host=name, address=name, ssh=name, run_dir=f"/r/{name}") for name in names),
        processes=processes,
        front_door=FrontDoor(host=first.host, address=first.address, port=30000, model="m"),
        limits=Limits(timeout=60, stall=30, grace=5),
    )


def process(**changes: Any) -> Process:
    """One process of host n01 with the given fields changed."""
    fields: dict[str, Any] = {
        "id": "dsv3/native/n01/r00",
        "role": "native",
        "host": "n01",
        "address": "10.0.0.1",
        "argv": ("/bin/true",),
        "log": "native-n000-r00.log",
        "health": Health(milestones=None),
    }
    return Process(**{**fields, **changes})


def kunpeng_plan(nodes: int = 1, ranks: int = 2) -> Plan:
    """A native Kunpeng deployment as the platform builds it, with as many nodes and ranks as asked."""
    names = [f"n{number:02}" for number in range(1, nodes + 1)]
    hosts = tuple(
        PlanHost(
            host=name,
            address=f"10.0.0.{index + 1}",
            ssh=name,
            run_dir=f"/var/lib/sgdeploy/dsv3/{name}",
            modules=(
                KernelModule(
                    name="sdma_dae",
                    file="/opt/sdma/sdma_dae.ko",
                    params={"safe_mode": "0", "share_chns": "160"},
                ),
            ),
        )
        for index, name in enumerate(names)
    )
    env = {
        "IS_PREFILL": "1",
        "GLOO_SOCKET_IFNAME": "enp26s0f0",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "5010",
        "PYTHONWARNINGS": "ignore::FutureWarning",
        "SPT_NOENV": "1",
        "SGLANG_WARMUP_TIMEOUT": "1600",
    }
    processes = tuple(
        kunpeng_rank(name, node, rank, nodes=nodes, ranks=ranks, env=env)
        for node, name in enumerate(names)
        for rank in range(ranks)
    )
    return plan_of(*processes, hosts=hosts)


def kunpeng_rank(  # every argument is a coordinate of the rank
    name: str, node: int, rank: int, *, nodes: int, ranks: int, env: dict[str, str]
) -> Process:
    """One rank as the Kunpeng platform plans it."""
    leader = node == 0 and rank == 0
    size = str(nodes * ranks)
    return Process(
        id=f"dsv3/native/{name}/r{rank:02}",
        role="native",
        host=name,
        address=f"10.0.0.{node + 1}",
        node_rank=node,
        rank_in_node=rank,
        leader=leader,
        argv=(
            f"/opt/sglang/scripts/cpu_kunpeng/pyinstall/dist/sglang_server_tp{rank}/sglang_server",
            *("--model-path", "/opt/model", "--device", "cpu", "--trust-remote-code"),
            *("--host", f"10.0.0.{node + 1}", "--dist-init-addr", "10.0.0.1:5010"),
            *("--nnodes", str(nodes), "--node-rank", str(node), "--tp-size", size, "--chunked-prefill-size", "-1"),
            *("--disaggregation-bootstrap-port", "9001"),
            *("--tp-rank-in-node", str(rank), "--port", str(30000 + rank)),
        ),
        env=env,
        env_prepend={"CPATH": ("/opt/kupl/include",), "LIBRARY_PATH": ("/opt/kupl/lib",)},
        activate=("conda:/opt/conda:sgl-cpu", "setvars:/opt/HPCKit/setvars.sh"),
        cwd="/opt/sglang",
        cores=(rank * 38 + 20,),
        hugepages=(pages(rank, 0), pages(rank + 16, 2020)),
        listens={"http": 30000 + rank, "rendezvous": 5010 if leader else None},
        connects={} if leader else {"rendezvous": "10.0.0.1:5010"},
        log=f"native-n{node:03}-r{rank:02}.log",
    )
