"""Ways in and data addresses are apart, and each may be of either family: a whole deployment over each mix."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sgdeploy.remote.base import Connector
from tests.cluster.deployments import QUICK, ROOMY, Events, assert_nothing_left, small_profile, write_inventory
from tests.kit import client
from tests.kit.hosts import Lab

pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("lab", [ROOMY], indirect=True)]
Connectors = Callable[..., Connector]
V4, V6 = ("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")


def log_in_by(lab: Lab, addresses: tuple[str, str]) -> None:
    """Let the aliases of the SSH configuration lead there."""
    lines = [f"Host {host.name}\n  HostName {address}\n" for host, address in zip(lab.hosts, addresses, strict=True)]
    (lab.home / ".ssh/config").write_text("".join(lines), encoding="utf-8")


def profile_for(lab: Lab, folder: Path, addresses: tuple[str, str]) -> Path:
    profile = small_profile(lab, folder, **QUICK)
    write_inventory(lab, folder, addresses=dict(zip(("n01", "n02"), addresses, strict=True)))
    return profile


@pytest.mark.parametrize(
    ("login", "data", "met", "door"),
    [
        (V6, V4, "10.77.0.1:25000", "http://10.77.0.1:30000"),
        (V4, V6, "[fd77::1]:25000", "http://[fd77::1]:30000"),
        (V4, (V6[0], V4[1]), "[fd77::1]:25000", "http://[fd77::1]:30000"),
    ],
    ids=["ssh by IPv6", "data by IPv6", "both among the data addresses"],
)
def test_up_status_and_down(
    lab: Lab, tmp_path: Path, login: tuple[str, str], data: tuple[str, str], met: str, door: str
) -> None:
    log_in_by(lab, login)
    profile = profile_for(lab, tmp_path, data)
    up = lab.sgdeploy("up", str(profile), "--json")
    assert up.returncode == 0, up.stderr
    assert door in Events.read(up.stdout).one("outcome")["message"]
    ways = [f" on {address} port 22 " in host.sshd_log() for host, address in zip(lab.hosts, login, strict=True)]
    assert ways == [True, True]
    plan = json.loads(lab.hosts[1].path("/var/lib/sgdeploy/small/n02/plan.json").read_text(encoding="utf-8"))
    words = plan["processes"][1]["argv"]
    assert (words[words.index("--host") + 1], words[words.index("--dist-init-addr") + 1]) == (data[1], met)
    status = json.loads(lab.sgdeploy("status", "small", "--json").stdout)
    assert (status["state"], status["front_door"]) == ("ready", door)
    down = lab.sgdeploy("down", "small")
    assert down.returncode == 0, down.stderr
    assert_nothing_left(lab.hosts)


def test_a_host_without_the_leaders_family_is_told_before_anything(lab: Lab, tmp_path: Path) -> None:
    lab.hosts[1].run(["ip", "-6", "addr", "flush", "dev", "eth0", "scope", "global"])
    up = lab.sgdeploy("up", str(profile_for(lab, tmp_path, (V6[0], V4[1]))))
    assert up.returncode == 3
    told = "n02: [fd77::1]:25000 cannot be reached from here: this host has no IPv6 address; it has 10.77.0.2 (eth0)"
    assert told in up.stderr
    assert not lab.hosts[0].path("/var/lib/sgdeploy").exists()


async def test_a_port_is_taken_at_whatever_address_a_name_leads_to(inside: Lab, connectors: Connectors) -> None:
    host = inside.hosts[0]
    config = host.path(client.SSHD_CONFIG).read_text(encoding="utf-8")
    names = host.path("/etc/hosts").read_text(encoding="utf-8")
    host.refuse()
    host.write(client.SSHD_CONFIG, f"ListenAddress {host.address6}\n{config}", 0o600)
    host.write(
        "/etc/hosts", f"{names}{host.address} four\n{host.address6} six\n{host.address} both\n{host.address6} both\n"
    )
    host.serve()
    opened = await connectors().open_all([inside.plan_host(host, ssh=host.address6, user="root")])
    assert opened.faults == ()
    asked = [{"address": name, "port": 22} for name in ("four", "six", "both", host.address, host.address6)]
    found = await opened.sessions["n01"].call("ports", {"ports": asked})
    assert [row["address"] for row in found["listening"]] == ["six", "both", host.address6]
