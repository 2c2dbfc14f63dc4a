"""Hosts that cannot be opened: each is named with reason and next step, and holds up nobody."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

import pytest

from sgdeploy.errors import HostFault
from sgdeploy.plan.model import PlanHost
from sgdeploy.remote.base import Connector
from tests.kit import client
from tests.kit.hosts import Lab

pytestmark = pytest.mark.cluster
Connectors = Callable[..., Connector]


async def fault_of(connect: Connector, host: PlanHost) -> HostFault:
    opened = await connect.open_all([host])
    assert not opened.sessions
    (fault,) = opened.faults
    assert fault.host == host.host
    return fault


async def test_a_host_that_refuses(inside: Lab, connectors: Connectors) -> None:
    inside.hosts[0].refuse()
    fault = await fault_of(connectors(), inside.plan_host(inside.hosts[0]))
    assert fault.reason == "n01 (10.77.0.1 port 22) refuses connections: no sshd listens there"
    inside.hosts[0].serve()
    assert (await connectors().open_all([inside.plan_host(inside.hosts[0])])).faults == ()


@pytest.mark.parametrize("lab", [8], indirect=True)
async def test_hosts_that_hang_hold_nobody_up(inside: Lab, connectors: Connectors) -> None:
    hanging, well = inside.hosts[:4], inside.hosts[4:]
    for host in hanging:
        host.hang()
    connect = connectors(limit=2, connect_timeout=6.0)
    begin = time.monotonic()
    # With two places, four dead hosts in front and a bound of 6 s each, a fair queue would need 12 s for the others.
    opening = asyncio.create_task(connect.open_all([inside.plan_host(host) for host in inside.hosts]))
    while not all("Accepted publickey" in host.sshd_log() for host in well):
        await asyncio.sleep(0.02)
        assert time.monotonic() - begin < 10
    assert time.monotonic() - begin < 6, "the well hosts were opened before the dead ones ran out of time"
    opened = await opening
    assert time.monotonic() - begin < 12
    assert list(opened.sessions) == [host.name for host in well]
    assert [fault.host for fault in opened.faults] == [host.name for host in hanging]
    assert opened.faults[0].reason == (
        "n01 (10.77.0.1 port 22) took the connection but has not said a word of SSH within 6 s"
    )


async def test_a_host_without_a_cable(inside: Lab, connectors: Connectors) -> None:
    inside.hosts[0].cut()
    fault = await fault_of(connectors(connect_timeout=1.0), inside.plan_host(inside.hosts[0]))
    assert "did not answer within 1 s" in fault.reason
    assert "nc -vz 10.77.0.1 22" in str(fault.hint)


async def test_an_address_outside_every_network(inside: Lab, connectors: Connectors) -> None:
    host = inside.plan_host(inside.hosts[0], ssh="203.0.113.1")
    assert "cannot be reached (Network is unreachable)" in (await fault_of(connectors(), host)).reason


async def test_a_name_that_nobody_knows(inside: Lab, connectors: Connectors) -> None:
    host = inside.plan_host(inside.hosts[0], ssh="nosuch.invalid")
    fault = await fault_of(connectors(), host)
    assert "the name nosuch.invalid cannot be resolved" in fault.reason


async def test_the_command_for_an_unknown_host_key_mends_it(inside: Lab, connectors: Connectors) -> None:
    known = inside.home / ".ssh/known_hosts"
    known.write_text("", encoding="utf-8")
    host = inside.plan_host(inside.hosts[0])
    fault = await fault_of(connectors(), host)
    own = inside.hosts[0].run(["ssh-keygen", "-lf", client.HOST_KEY]).stdout.split()[1]
    assert f"is not known; it presents ssh-ed25519 {own}" in fault.reason
    command = str(fault.hint).partition("then: ")[2]
    inside.run(["sh", "-c", command])
    assert (await connectors().open_all([host])).faults == ()


async def test_the_command_for_a_changed_host_key_mends_it(inside: Lab, connectors: Connectors) -> None:
    inside.hosts[0].change_host_key()
    host = inside.plan_host(inside.hosts[0])
    fault = await fault_of(connectors(), host)
    assert "the host key of n01 (10.77.0.1 port 22) has CHANGED; it presents ssh-ed25519 SHA256:" in fault.reason
    command = str(fault.hint).partition("own: ")[2]
    inside.run(["sh", "-c", command])
    assert (await connectors().open_all([host])).faults == ()


async def test_a_key_of_another_type_counts_as_changed(inside: Lab, connectors: Connectors) -> None:
    known = inside.home / ".ssh/known_hosts"
    inside.run(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", "k"])
    known.write_text("10.77.0.1 " + (inside.home / "k.pub").read_text(encoding="ascii"), encoding="ascii")
    fault = await fault_of(connectors(), inside.plan_host(inside.hosts[0]))
    assert "has CHANGED; it presents ssh-ed25519" in fault.reason


async def test_a_host_with_several_keys_shows_the_one_that_is_known(inside: Lab, connectors: Connectors) -> None:
    host = inside.hosts[0]
    config = host.path(client.SSHD_CONFIG).read_text(encoding="utf-8")
    host.run(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", "/etc/ssh/lab_rsa"])
    host.refuse()
    host.write(client.SSHD_CONFIG, f"HostKey /etc/ssh/lab_rsa\n{config}", 0o600)
    host.serve()
    public = host.path("/etc/ssh/lab_rsa.pub").read_text(encoding="ascii")
    (inside.home / ".ssh/known_hosts").write_text(f"10.77.0.1 {public}", encoding="ascii")
    assert (await connectors().open_all([inside.plan_host(host)])).faults == ()


async def test_a_refused_key_names_user_and_key(inside: Lab, connectors: Connectors) -> None:
    inside.hosts[0].write("/etc/ssh/lab_authorized_keys", "")
    fault = await fault_of(connectors(), inside.plan_host(inside.hosts[0]))
    assert fault.reason == f"n01 (10.77.0.1 port 22) refuses user root; keys tried: {inside.home}/.ssh/id_ed25519"
    assert "ssh-copy-id root@10.77.0.1" in str(fault.hint)


async def test_no_python3(inside: Lab, connectors: Connectors) -> None:
    inside.hosts[0].without_python()
    fault = await fault_of(connectors(), inside.plan_host(inside.hosts[0]))
    assert "there is no python3 for root" in fault.reason


async def test_a_python3_that_is_too_old(inside: Lab, connectors: Connectors) -> None:
    script = '#!/bin/sh\necho "sgdeploy needs Python 3.7 or newer, this is 3.6.8" >&2\nexit 1\n'
    inside.hosts[0].without_python()
    inside.hosts[0].write("/usr/bin/python3", script, 0o755)
    fault = await fault_of(connectors(), inside.plan_host(inside.hosts[0]))
    assert fault.reason == "its python3 is too old: sgdeploy needs Python 3.7 or newer, this is 3.6.8"


@pytest.mark.parametrize(
    ("shell", "reason"),
    [
        ("/usr/sbin/nologin", "exit code 1; it printed: This account is currently not available."),
        ("/bin/false", "before its first word, the node helper ended with exit code 1"),
    ],
)
async def test_an_account_that_may_not_log_in(inside: Lab, connectors: Connectors, shell: str, reason: str) -> None:
    host = inside.hosts[0]
    passwd = host.path("/etc/passwd").read_text(encoding="utf-8")
    host.write("/etc/passwd", re.sub(r"^(root:.*:)[^:]*$", rf"\g<1>{shell}", passwd, flags=re.MULTILINE))
    assert reason in (await fault_of(connectors(), inside.plan_host(host))).reason


async def test_a_login_file_that_asks(inside: Lab, connectors: Connectors) -> None:
    inside.hosts[0].write("/root/.bashrc", "echo 'Which project?'; sleep 60\n")
    fault = await fault_of(connectors(greeting_timeout=1.0), inside.plan_host(inside.hosts[0]))
    assert fault.reason == (
        "the node helper has not begun within 1 s of the login; the last line heard is: Which project?"
    )


async def test_a_server_that_always_drops_us(inside: Lab, connectors: Connectors) -> None:
    host = inside.hosts[0]
    host.refuse()
    dropping = (
        "import socket,os\ns=socket.create_server(('',22))\nif os.fork():os._exit(0)\nwhile 1:s.accept()[0].close()"
    )
    host.run(["sh", "-c", 'exec python3 -c "$0" >/dev/null 2>&1', dropping])
    begin = time.monotonic()
    fault = await fault_of(connectors(connect_timeout=2.0), inside.plan_host(host))
    assert time.monotonic() - begin < 4
    assert "dropped the connection before its first word, again and again in 2 s" in fault.reason
    assert "MaxStartups" in str(fault.hint)


async def test_a_broken_ssh_configuration_is_named_with_its_line(inside: Lab, connectors: Connectors) -> None:
    (inside.home / ".ssh/config").write_text("Host n01\n  Port many\n", encoding="utf-8")
    fault = await fault_of(connectors(), inside.plan_host(inside.hosts[0]))
    assert f"{inside.home}/.ssh/config line 2: Invalid Port integer value: many" in fault.reason
