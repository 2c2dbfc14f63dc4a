"""Another user, who becomes root by sudo: real sudo, with the rules that administrators write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sgdeploy.errors import HostFault
from sgdeploy.plan.model import PlanHost
from sgdeploy.remote.base import Connector
from tests.cluster.deployments import QUICK, ROOMY, assert_nothing_left, engines, small_profile, write_inventory
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost

pytestmark = pytest.mark.cluster
Connectors = Callable[..., Connector]
DEFAULTS = 'Defaults env_reset, use_pty, secure_path="/usr/sbin:/usr/bin:/sbin:/bin"\n'
ALL = "ops ALL=(root) NOPASSWD: ALL\n"


def let(host: LabHost, *rules: str) -> None:
    """Make the account, and the whole of sudoers."""
    host.add_user("ops")
    host.write("/etc/sudoers", DEFAULTS + "".join(rules), 0o440)


def as_ops(lab: Lab) -> PlanHost:
    return lab.plan_host(lab.hosts[0], user="ops", sudo=True)


@pytest.mark.parametrize(
    "rules",
    [
        (ALL,),
        ("ops ALL=(root) NOPASSWD: /usr/bin/python3\n",),
        ("Defaults env_keep += HOME\n", ALL),
        ("Defaults secure_path=/opt/nothing\n", ALL),
    ],
    ids=["usual", "python3 alone", "home kept", "python3 outside the path"],
)
async def test_the_helper_is_roots(inside: Lab, connectors: Connectors, rules: tuple[str, ...]) -> None:
    host = inside.hosts[0]
    let(host, *rules)
    connect = connectors()
    opened = await connect.open_all([as_ops(inside)])
    assert opened.faults == ()
    hello = opened.sessions["n01"].hello
    assert (hello["user"], hello["uid"], hello["home"]) == ("root", 0, "/root")
    assert "Accepted publickey for ops" in host.sshd_log()
    await connect.close_all()
    host.wait_idle()


async def refused(lab: Lab, connectors: Connectors) -> HostFault:
    opened = await connectors().open_all([as_ops(lab)])
    (fault,) = opened.faults
    lab.hosts[0].wait_idle()
    return fault


@pytest.mark.parametrize(
    ("rules", "reason", "mend"),
    [
        (
            ("ops ALL=(root) ALL\n",),
            "sudo asks ops for a password, which sgdeploy never gives: sudo: a password is required",
            "ops ALL=(root) NOPASSWD: ALL",
        ),
        ((), "sudo asks ops for a password, which sgdeploy never gives: ", "ops ALL=(root) NOPASSWD: ALL"),
        (
            ("Defaults requiretty\n", ALL),
            "sudo wants a terminal (requiretty), which the node helper does not have: ",
            "Defaults:ops !requiretty",
        ),
        (
            ("Defaults !authenticate\n", "ops ALL=(root) /bin/true\n"),
            "sudo does not let ops run python3 as root",
            "ops ALL=(root) NOPASSWD: ALL",
        ),
    ],
    ids=["password", "not in sudoers", "requiretty", "another program"],
)
async def test_the_line_that_a_refusal_gives_mends_it(
    inside: Lab, connectors: Connectors, rules: tuple[str, ...], reason: str, mend: str
) -> None:
    let(inside.hosts[0], *rules)
    fault = await refused(inside, connectors)
    assert fault.reason.startswith(reason)
    line = str(fault.hint).partition("with the line: ")[2]
    assert line == mend
    inside.hosts[0].write("/etc/sudoers", DEFAULTS + "".join((*rules, line, "\n")), 0o440)
    assert (await connectors().open_all([as_ops(inside)])).faults == ()


async def test_no_sudo(inside: Lab, connectors: Connectors) -> None:
    let(inside.hosts[0], ALL)
    inside.hosts[0].path("/usr/bin/sudo").unlink()
    assert (await refused(inside, connectors)).reason == "there is no sudo for ops in the PATH of the login shell"


@pytest.mark.parametrize("lab", [ROOMY], indirect=True)
def test_up_and_down_as_another_user(lab: Lab, tmp_path: Path) -> None:
    profile = small_profile(lab, tmp_path, **QUICK)
    write_inventory(lab, tmp_path, ssh="user: ops, sudo: true")
    for host in lab.hosts:
        let(host, ALL)
    up = lab.sgdeploy("up", str(profile))
    assert up.returncode == 0, up.stderr
    assert json.loads(lab.sgdeploy("status", "small", "--json").stdout)["state"] == "ready"
    for host in lab.hosts:
        assert host.path(f"/var/lib/sgdeploy/small/{host.name}/launch.json").is_file()
        assert {Path(f"/proc/{pid}").stat().st_uid for pid in engines(host)} == {0}
    down = lab.sgdeploy("down", "small")
    assert down.returncode == 0, down.stderr
    assert_nothing_left(lab.hosts)
