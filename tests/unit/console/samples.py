"""Plans, events and statuses that the tests of the console show."""

from __future__ import annotations

import io
from dataclasses import dataclass

from sgdeploy.console.console import Console
from sgdeploy.console.data import Mode
from sgdeploy.plan.model import (
    FrontDoor,
    Hugepages,
    KernelModule,
    Limits,
    Plan,
    PlanHost,
    Process,
    SecretRef,
)

KEY = SecretRef.model_validate({"secret": "env:MY_KEY"})
NOW = 1_700_000_000.0


@dataclass
class Screen:
    """A console and what it has written."""

    console: Console
    out: io.StringIO
    err: io.StringIO


def screen(mode: Mode = "plain", *, quiet: bool = False, color: bool | None = None) -> Screen:
    """Make a console that writes into memory; its clock stands still."""
    out, err = io.StringIO(), io.StringIO()
    return Screen(Console(mode, out=out, err=err, quiet=quiet, color=color, clock=lambda: NOW), out, err)


def process(host: int, rank: int, *, ranks: int) -> Process:
    """Make one rank of the sample plan."""
    leader = host == 1 and rank == 0
    return Process(
        id=f"big/native/n{host:02d}/r{rank:02d}",
        role="native",
        host=f"n{host:02d}",
        address=f"10.0.0.{host}",
        node_rank=host - 1,
        rank_in_node=rank,
        leader=leader,
        argv=("/opt/engine", "serve", "--model-path", "/models/a b", "--rank", str((host - 1) * ranks + rank)),
        env={"MODE": "fast", "RANK": str(rank), "API_KEY": KEY},
        env_prepend={"LD_LIBRARY_PATH": ("/opt/lib",)},
        cores=(20 + 38 * rank,),
        hugepages=(Hugepages(path=_pages(16 + rank), value=2020),),
        listens={"http": 30000 + rank},
        connects={"rendezvous": "10.0.0.1:5010"},
        log=f"native-n{host:02d}-r{rank:02d}.log",
    )


def _pages(node: int) -> str:
    return f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"


def plan(hosts: int = 2, ranks: int = 2) -> Plan:
    """Make a native plan of so many hosts and ranks on each."""
    numbers = range(1, hosts + 1)
    return Plan(
        name="big",
        topology="native",
        platform="kunpeng-920f",
        engine_version="kunpeng",
        stages=(("native",),),
        hosts=tuple(
            PlanHost(
                host=f"n{n:02d}",
                address=f"10.0.0.{n}",
                ssh=f"n{n:02d}.lab",
                run_dir=f"/run/big/n{n:02d}",
                modules=(KernelModule(name="sdma", file="/opt/sdma.ko", params={"safe": "0"}),),
                hugepages=(Hugepages(path=_pages(0), value=0), Hugepages(path=_pages(1), value=0)),
            )
            for n in numbers
        ),
        processes=tuple(process(n, r, ranks=ranks) for n in numbers for r in range(ranks)),
        front_door=FrontDoor(host="n01", address="10.0.0.1", port=30000, model="a", api_key=KEY),
        limits=Limits(timeout=2700, stall=600, grace=20),
    )
