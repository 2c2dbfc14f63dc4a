"""Getting into hosts by real SSH, also where their accounts are peculiar."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sgdeploy.plan.model import PlanHost
from sgdeploy.remote.base import Connector, Json, NodeSession
from sgdeploy.remote.session import Session
from sgdeploy.remote.ssh import SshChannel
from tests.kit import client
from tests.kit.hosts import Lab
from tests.kit.labhost import wait_until

pytestmark = pytest.mark.cluster
NOTHING: tuple[str, Json] = ("ports", {"ports": []})
"""The operation with the least to do."""
NONE: Json = {"listening": []}
Connectors = Callable[..., Connector]


async def open_one(connect: Connector, host: PlanHost) -> NodeSession:
    opened = await connect.open_all([host])
    assert opened.faults == ()
    return opened.sessions[host.host]


@pytest.mark.parametrize("lab", [16, 64], indirect=True)
async def test_many_hosts_open_at_once(inside: Lab, connectors: Connectors) -> None:
    connect = connectors()
    begin = time.monotonic()
    opened = await connect.open_all([inside.plan_host(host) for host in inside.hosts])
    seconds = time.monotonic() - begin
    assert opened.faults == ()
    assert {name: session.hello["hostname"] for name, session in opened.sessions.items()} == {
        host.name: host.name for host in inside.hosts
    }
    assert len({session.hello["boot_id"] for session in opened.sessions.values()}) == len(inside.hosts)
    answers = await asyncio.gather(*(session.call(*NOTHING) for session in opened.sessions.values()))
    assert answers == [NONE] * len(inside.hosts)
    assert seconds < len(inside.hosts) / 2, "0.4 s for 16 hosts on an idle machine of two cores"


async def test_one_connection_and_one_helper_per_host_and_none_afterwards(inside: Lab, connectors: Connectors) -> None:
    connect, host = connectors(), inside.hosts[0]
    for _ in range(2):
        await open_one(connect, inside.plan_host(host))
    assert sum("-I -S -u -c" in " ".join(proc.argv) for proc in host.processes()) == 1
    assert len(re.findall("Accepted publickey", host.sshd_log())) == 1
    await connect.close_all()
    host.wait_idle()


async def test_the_helper_has_no_terminal_and_no_agent(inside: Lab, connectors: Connectors) -> None:
    session = await open_one(connectors(), inside.plan_host(inside.hosts[0]))
    environment = inside.hosts[0].path(f"/proc/{session.hello['pid']}/environ").read_text(encoding="utf-8")
    assert "SSH_CONNECTION=" in environment
    assert not {"SSH_TTY", "SSH_AUTH_SOCK", "DISPLAY"} & {word.partition("=")[0] for word in environment.split("\0")}


NOISE = """
echo 'Welcome to rack 1'; echo 'disk 93 % full' >&2; printf 'no line end '; printf '\\033]0;title\\007'
yes 'chatter chatter chatter' | head -n 20000
"""


@pytest.mark.parametrize(
    ("login_file", "seconds"),
    [(NOISE, 0.0), ("sleep 2\n", 2.0), ("exec 2>&1\n", 0.0), ("cd /nowhere; false\nset -e\n", 0.0)],
    ids=["noisy", "slow", "joined", "failing"],
)
async def test_login_files_may_be_odd(inside: Lab, connectors: Connectors, login_file: str, seconds: float) -> None:
    host = inside.hosts[0]
    host.write("/root/.bashrc", login_file)
    begin = time.monotonic()
    session = await open_one(connectors(), inside.plan_host(host))
    assert time.monotonic() - begin >= seconds
    assert await session.call(*NOTHING) == NONE


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/bash", "/opt/odd-shell"])
async def test_the_login_shell_may_be_another(inside: Lab, connectors: Connectors, shell: str) -> None:
    host = inside.hosts[0]
    host.write("/opt/odd-shell", '#!/bin/sh\necho "odd shell 1.0"\nexec /bin/sh "$@"\n', 0o755)
    passwd = host.path("/etc/passwd").read_text(encoding="utf-8")
    host.write("/etc/passwd", re.sub(r"^(root:.*:)[^:]*$", rf"\g<1>{shell}", passwd, flags=re.MULTILINE))
    session = await open_one(connectors(), inside.plan_host(host))
    assert session.hello["user"] == "root"


async def test_python3_may_stand_outside_the_path(inside: Lab, connectors: Connectors) -> None:
    host = inside.hosts[0]
    host.write("/root/.bashrc", "PATH=/opt/nothing\n")
    assert (await open_one(connectors(), inside.plan_host(host))).hello["python"]


async def test_another_user_of_the_inventory(inside: Lab, connectors: Connectors) -> None:
    inside.hosts[0].add_user("ops")
    session = await open_one(connectors(), inside.plan_host(inside.hosts[0], user="ops"))
    assert (session.hello["user"], session.hello["uid"], session.hello["home"]) == ("ops", 4711, "/home/ops")


async def test_ipv6(inside: Lab, connectors: Connectors) -> None:
    host = inside.hosts[0]
    session = await open_one(connectors(), inside.plan_host(host, ssh=host.address6, user="root"))
    assert session.hello["hostname"] == host.name


async def test_another_port_of_the_inventory(connectors: Connectors, inside: Lab) -> None:
    host = inside.hosts[0]
    config = host.path(client.SSHD_CONFIG).read_text(encoding="utf-8")
    host.refuse()
    host.write(client.SSHD_CONFIG, f"Port 2222\n{config}", 0o600)
    host.serve()
    await open_one(connectors(), inside.plan_host(host, port=2222))


async def test_a_banner_is_no_noise(inside: Lab, connectors: Connectors) -> None:
    host = inside.hosts[0]
    config = host.path(client.SSHD_CONFIG).read_text(encoding="utf-8")
    host.refuse()
    host.write("/etc/banner", "Authorised users only.\n" * 40)
    host.write(client.SSHD_CONFIG, f"Banner /etc/banner\n{config}", 0o600)
    host.serve()
    await open_one(connectors(), inside.plan_host(host))


async def test_a_server_that_drops_early_is_asked_again(connectors: Connectors, inside: Lab) -> None:
    host = inside.hosts[0]
    config = (
        host.path(client.SSHD_CONFIG).read_text(encoding="utf-8").replace("MaxStartups 1000", "MaxStartups 10:30:100")
    )
    host.refuse()
    host.write(client.SSHD_CONFIG, config, 0o600)
    host.write("/root/.bashrc", "")
    host.serve()
    same = [inside.plan_host(host, host=f"h{k}") for k in range(32)]
    opened = await connectors(limit=32, connect_timeout=20).open_all(same)
    assert opened.faults == ()
    assert len(opened.sessions) == 32


async def test_unchecked_host_keys_only_where_the_inventory_says_so(inside: Lab, connectors: Connectors) -> None:
    (inside.home / ".ssh/known_hosts").unlink()
    strict, off = inside.plan_host(inside.hosts[0]), inside.plan_host(inside.hosts[1], known_hosts="off")
    opened = await connectors().open_all([strict, off])
    assert list(opened.sessions) == [off.host]
    assert "is not known" in opened.faults[0].reason
    assert not (inside.home / ".ssh/known_hosts").exists(), "nothing is accepted in silence, nor written down"


@pytest.mark.parametrize(
    "option", ["StrictHostKeyChecking no", "UserKnownHostsFile none", "UserKnownHostsFile /dev/null"]
)
async def test_the_ssh_configuration_cannot_switch_the_check_off(
    inside: Lab, connectors: Connectors, option: str
) -> None:
    config = inside.home / ".ssh/config"
    config.write_text(f"{config.read_text(encoding='utf-8')}Host *\n  {option}\n", encoding="utf-8")
    (inside.home / ".ssh/known_hosts").unlink()
    opened = await connectors().open_all([inside.plan_host(inside.hosts[0])])
    assert "is not known" in opened.faults[0].reason


@pytest.mark.parametrize(
    ("of_client", "of_server", "used"),
    [
        ("", "", "aes128-gcm@openssh.com"),
        ("", "Ciphers aes256-ctr,chacha20-poly1305@openssh.com", "chacha20-poly1305@openssh.com"),
        ("Ciphers aes256-ctr", "", "aes256-ctr"),
    ],
    ids=["ours", "server", "configuration"],
)
async def test_how_to_encrypt(inside: Lab, connectors: Connectors, of_client: str, of_server: str, used: str) -> None:
    host = inside.hosts[0]
    config = inside.home / ".ssh/config"
    config.write_text(f"{of_client}\n{config.read_text(encoding='utf-8')}", encoding="utf-8")
    text = host.path(client.SSHD_CONFIG).read_text(encoding="utf-8")
    host.refuse()
    host.write(client.SSHD_CONFIG, f"{of_server}\n{text}", 0o600)
    host.serve()
    session = await open_one(connectors(), inside.plan_host(host))
    assert isinstance(session, Session)
    assert isinstance(session._channel, SshChannel)
    assert session._channel._connection.get_extra_info("send_cipher") == used


async def test_host_keys_of_the_machine_count(inside: Lab, connectors: Connectors, tmp_path: Path) -> None:
    (inside.home / ".ssh/known_hosts").rename(tmp_path / "machine")
    config = inside.home / ".ssh/config"
    config.write_text(
        f"GlobalKnownHostsFile {tmp_path}/machine\n{config.read_text(encoding='utf-8')}", encoding="utf-8"
    )
    await open_one(connectors(), inside.plan_host(inside.hosts[0]))


async def test_hashed_known_hosts(inside: Lab, connectors: Connectors) -> None:
    known = inside.home / ".ssh/known_hosts"
    inside.run(["ssh-keygen", "-q", "-H", "-f", str(known)])
    assert known.read_text(encoding="ascii").startswith("|1|")
    await open_one(connectors(), inside.plan_host(inside.hosts[0]))


@pytest.fixture
def agent(inside: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run an agent and point us at it."""
    socket = inside.home / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL) as process:
        wait_until(socket.exists, "the socket of ssh-agent")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        yield
        process.terminate()


@pytest.mark.usefixtures("agent")
async def test_a_key_with_a_passphrase_works_through_the_agent(inside: Lab, connectors: Connectors) -> None:
    key = inside.home / ".ssh/id_ed25519"
    inside.run(["ssh-add", "-q", str(key)])
    inside.run(["ssh-keygen", "-q", "-p", "-N", "a passphrase", "-f", str(key)])
    await open_one(connectors(), inside.plan_host(inside.hosts[0]))


async def test_a_key_with_a_passphrase_and_no_agent_is_a_clear_fault(inside: Lab, connectors: Connectors) -> None:
    key = inside.home / ".ssh/id_ed25519"
    inside.run(["ssh-keygen", "-q", "-p", "-N", "a passphrase", "-f", str(key)])
    opened = await connectors().open_all([inside.plan_host(inside.hosts[0])])
    assert f"not tried, since they need a passphrase: {key}" in opened.faults[0].reason
    assert opened.faults[0].hint == f"ssh-add {key}"
