"""Through jump hosts: n01 and n02 are the gates, n03 can be reached from n02 alone."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from sgdeploy.remote.base import Connector, Json, LostHostError, Opened
from tests.kit.hosts import Lab

pytestmark = pytest.mark.cluster
NOTHING: tuple[str, Json] = ("ports", {"ports": []})
"""The operation with the least to do."""
NONE: Json = {"listening": []}
Connectors = Callable[..., Connector]


def configure(lab: Lab, text: str) -> None:
    config = lab.home / ".ssh/config"
    config.write_text(f"{text}\n{config.read_text(encoding='utf-8')}", encoding="utf-8")


async def open_last(lab: Lab, connect: Connector) -> Opened:
    return await connect.open_all([lab.plan_host(lab.hosts[2])])


def origin(lab: Lab) -> str:
    """Say from where the last host was logged in to."""
    found = re.search(r"Accepted publickey for root from (\S+) port", lab.hosts[2].sshd_log())
    return found[1] if found else ""


@pytest.mark.parametrize(
    ("config", "gate"),
    [
        ("Host n03\n  ProxyJump n01", 0),
        ("Host n03\n  ProxyJump root@10.77.0.1:22", 0),
        ("Host n03\n  ProxyJump n01,n02", 1),
        ("Host n03\n  ProxyJump n02\nHost n02\n  ProxyJump n01", 1),
        ("Host *\n  ProxyJump n01", 0),
        ("Host n03\n  ProxyCommand ssh -o BatchMode=yes -F ~/.ssh/config -W %h:%p n01", 0),
    ],
    ids=["one hop", "address", "two hops", "nested", "for all", "command"],
)
async def test_ways_through(inside: Lab, connectors: Connectors, config: str, gate: int) -> None:
    # ssh itself takes the home folder from the account, not from the environment.
    configure(inside, config.replace("~", str(inside.home)))
    ssh_files = f"IdentityFile {inside.home}/.ssh/id_ed25519\nUserKnownHostsFile {inside.home}/.ssh/known_hosts"
    configure(inside, ssh_files)
    opened = await open_last(inside, connectors())
    assert opened.faults == ()
    assert await opened.sessions["n03"].call(*NOTHING) == NONE
    assert origin(inside) == inside.hosts[gate].address


async def test_no_jump_where_the_configuration_says_none(inside: Lab, connectors: Connectors) -> None:
    configure(inside, "Host n03\n  ProxyJump none\nHost *\n  ProxyJump n01")
    assert (await open_last(inside, connectors())).faults == ()
    assert origin(inside) == inside.address


@pytest.mark.parametrize("lab", [12], indirect=True)
async def test_one_connection_to_the_jump_host_serves_all(inside: Lab, connectors: Connectors) -> None:
    configure(inside, "Host n01\n  ProxyJump none\nHost *\n  ProxyJump n01")
    opened = await connectors().open_all([inside.plan_host(host) for host in inside.hosts[1:]])
    assert (opened.faults, len(opened.sessions)) == ((), 11)
    assert len(re.findall("Accepted publickey", inside.hosts[0].sshd_log())) == 1


async def test_the_jump_host_has_the_same_host_key_rules(inside: Lab, connectors: Connectors) -> None:
    configure(inside, "Host n03\n  ProxyJump n01")
    inside.hosts[0].change_host_key()
    (fault,) = (await open_last(inside, connectors())).faults
    assert fault.host == "n03"
    assert fault.reason.startswith("jump host n01: the host key of n01 (10.77.0.1 port 22) has CHANGED")
    assert "ssh-keygen -R 10.77.0.1" in str(fault.hint)


async def test_a_host_behind_a_jump_host_has_them_too(inside: Lab, connectors: Connectors) -> None:
    configure(inside, "Host n03\n  ProxyJump n01")
    inside.hosts[2].change_host_key()
    (fault,) = (await open_last(inside, connectors())).faults
    assert fault.reason.startswith("the host key of n03 (10.77.0.3 port 22) has CHANGED")


@pytest.mark.parametrize(("changed", "named"), [(0, "jump host n01: "), (1, "jump host n02: "), (2, "")])
async def test_over_two_hops_each_key_is_checked_and_nobody_behind_is_reached(
    inside: Lab, connectors: Connectors, changed: int, named: str
) -> None:
    configure(inside, "Host n03\n  ProxyJump n01,n02")
    host = inside.hosts[changed]
    host.change_host_key()
    (fault,) = (await open_last(inside, connectors())).faults
    assert fault.host == "n03"
    assert fault.reason.startswith(f"{named}the host key of {host.name} ({host.address} port 22) has CHANGED")
    assert f"ssh-keygen -R {host.address}" in str(fault.hint)
    assert ["Accepted publickey" in one.sshd_log() for one in inside.hosts] == [at < changed for at in range(3)]


async def test_an_unknown_second_hop_is_no_way_through(inside: Lab, connectors: Connectors) -> None:
    configure(inside, "Host n03\n  ProxyJump n01,n02")
    known = inside.home / ".ssh/known_hosts"
    lines = known.read_text(encoding="utf-8").splitlines(keepends=True)
    known.write_text("".join(line for line in lines if not line.startswith("n02,")), encoding="utf-8")
    (fault,) = (await open_last(inside, connectors())).faults
    assert fault.reason.startswith("jump host n02: the host key of n02 (10.77.0.2 port 22) is not known")


async def test_a_jump_host_that_refuses(inside: Lab, connectors: Connectors) -> None:
    configure(inside, "Host n03\n  ProxyJump n01\nHost n02\n  ProxyJump n01")
    inside.hosts[0].refuse()
    connect = connectors()
    opened = await connect.open_all([inside.plan_host(host) for host in inside.hosts[1:]])
    assert [fault.reason for fault in opened.faults] == [
        "jump host n01: n01 (10.77.0.1 port 22) refuses connections: no sshd listens there"
    ] * 2
    inside.hosts[0].serve()
    assert (await open_last(inside, connect)).faults == ()


async def test_a_host_that_refuses_the_jump_host(inside: Lab, connectors: Connectors) -> None:
    configure(inside, "Host n03\n  ProxyJump n01")
    inside.hosts[2].refuse()
    (fault,) = (await open_last(inside, connectors())).faults
    assert "n03 (10.77.0.3 port 22) cannot be reached from jump host n01: " in fault.reason
    assert fault.hint == "ssh n01 nc -vz 10.77.0.3 22"


async def test_jump_hosts_in_a_circle(inside: Lab, connectors: Connectors) -> None:
    configure(inside, "Host n01\n  ProxyJump n02\nHost n02\n  ProxyJump n01\nHost n03\n  ProxyJump n01")
    opened = await open_last(inside, connectors())
    assert opened.faults == ()
    assert origin(inside) == inside.hosts[0].address


async def test_the_loss_of_a_jump_host_is_the_loss_of_those_behind(inside: Lab, connectors: Connectors) -> None:
    configure(inside, "Host n03\n  ProxyJump n01")
    session = (await open_last(inside, connectors(keepalive=0.5))).sessions["n03"]
    inside.hosts[0].power_off()
    with pytest.raises(LostHostError):
        await session.call("gather", {"commands": {"wait": ["sleep", "9"]}}, limit=8)
