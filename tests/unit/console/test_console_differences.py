"""Two plans compared, for people: what is alike on many processes is said once."""

from __future__ import annotations

from textwrap import dedent

from sgdeploy.console.differences import difference_lines
from sgdeploy.plan.compare import compare
from sgdeploy.plan.model import Plan
from tests.unit.console.samples import plan, process


def shown(before: Plan, after: Plan) -> str:
    lines = difference_lines(compare(before, after), ("big as it was started", before), ("my.yaml", after))
    text = "".join(f"{line}\n" for line in lines)
    return text.replace(before.digest, "sha256:…").replace(after.digest, "sha256:…")


def test_what_changes_on_some_processes_and_what_on_all() -> None:
    before = plan(2, 4)
    changed = [
        each.model_copy(
            update={
                "argv": (*each.argv, "--page-size", "64"),
                "cores": (each.cores[0] + 1, 600) if each.cores else None,
                "listens": {"http": (each.listens["http"] or 0) + 1000},
                "env": {**each.env, "MODE": "\x1b[2Jslow"} if each.leader else each.env,
                "hugepages": () if each.leader else each.hugepages,
            }
        )
        for each in before.processes
    ]
    hosts = [host.model_copy(update={"modules": (), "sysfs_root": "/tmp/fake"}) for host in before.hosts]
    front = before.front_door.model_copy(update={"port": 31000})
    after = before.model_copy(update={"processes": tuple(changed), "hosts": tuple(hosts), "front_door": front})
    assert shown(before, after) == dedent("""\
        -  big as it was started  sha256:…
        +  my.yaml                sha256:…

        deployment
          front_door.port  30000 → 31000

        hosts: 2 of 2 hosts changed
          n[01-02]
            sysfs_root  "" → /tmp/fake
            modules     [{"name": "sdma", "file": "/opt/sdma.ko", "params": {"safe": "0"}}] → nothing

        processes: 8 of 8 processes changed
          native/n01/r00
            --page-size   nothing → 64
            env MODE      fast → slow
            cores         20 → 21,600
            listens.http  30000 → 31000
            hugepages     node 16 2048kB = 2020 → nothing
          native/n01/r[01-03], native/n02/r[00-03]
            --page-size   nothing → 64
            cores         58 … 20 → 59,600 … 21,600   (4 different ones)
            listens.http  30001 … 30000 → 31001 … 31000   (4 different ones)
        """)


def test_hosts_that_come_and_go() -> None:
    before = plan(3, 1)
    after = before.model_copy(update={"hosts": before.hosts[1:], "processes": before.processes[1:]})
    assert shown(before, after) == dedent("""\
        -  big as it was started  sha256:…
        +  my.yaml                sha256:…

        hosts: 1 gone
          - n01

        processes: 1 gone
          - native/n01/r00
        """)
    added = before.model_copy(update={"processes": (*before.processes, process(3, 1, ranks=2))})
    assert shown(before, added).splitlines()[-2:] == ["processes: 1 new", "  + native/n03/r01"]


def test_no_difference() -> None:
    assert shown(plan(), plan()) == "no difference: my.yaml plans what big as it was started does\n"
