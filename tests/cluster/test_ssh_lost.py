"""Hosts that were open and then are not: noticed within a bound, told to everything that waits."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

import pytest

from sgdeploy.remote.base import Connector, Json, LostHostError, NodeSession
from sgdeploy.remote.ssh import Limits
from tests.kit.hosts import Lab
from tests.kit.labhost import LabHost, wait_until

pytestmark = pytest.mark.cluster
NOTHING: tuple[str, Json] = ("ports", {"ports": []})
"""The operation with the least to do."""
NONE: Json = {"listening": []}
Connectors = Callable[..., Connector]


def test_a_cut_is_noticed_within_fifteen_seconds_by_default() -> None:
    limits = Limits()
    assert limits.keepalive * (limits.keepalive_count + 1) <= 15


async def open_all(lab: Lab, connect: Connector) -> dict[str, NodeSession]:
    opened = await connect.open_all([lab.plan_host(host) for host in lab.hosts])
    assert opened.faults == ()
    return dict(opened.sessions)


async def waiting(session: NodeSession) -> None:
    """Wait for events that never come; the run folder does not exist."""
    async for _ in session.stream("watch", {"run_dir": "/nowhere", "ids": None}, silence=60):
        pass


def helper_of(host: LabHost, session: NodeSession) -> int:
    return next(proc.pid for proc in host.processes() if proc.inner_pid == session.hello["pid"])


@pytest.mark.parametrize("how", [LabHost.power_off, LabHost.cut], ids=["power", "cable"])
async def test_silence_on_the_line_is_a_lost_host(
    inside: Lab, connectors: Connectors, how: Callable[[LabHost], None]
) -> None:
    sessions = await open_all(inside, connectors(keepalive=0.5))
    how(inside.hosts[0])
    begin = time.monotonic()
    with pytest.raises(LostHostError) as caught:
        await sessions["n01"].call("gather", {"commands": {"wait": ["sleep", "9"]}}, limit=60)
    assert time.monotonic() - begin < 4
    assert (caught.value.host, caught.value.reason) == (
        "n01",
        "the host has not answered on the SSH connection for 1.5 s (power or network)",
    )
    assert await sessions["n02"].call(*NOTHING) == NONE


async def test_a_short_cut_is_survived(inside: Lab, connectors: Connectors) -> None:
    sessions = await open_all(inside, connectors(keepalive=4.0))
    inside.hosts[0].cut()
    call = asyncio.create_task(sessions["n01"].call(*NOTHING))
    await asyncio.sleep(1)
    assert not call.done()
    inside.hosts[0].mend()
    assert await asyncio.wait_for(call, 10) == NONE


async def test_a_lost_host_can_be_opened_again_after_a_boot(inside: Lab, connectors: Connectors) -> None:
    connect, host = connectors(keepalive=0.5), inside.hosts[0]
    before = (await open_all(inside, connect))["n01"]
    host.power_off()
    with pytest.raises(LostHostError):
        await before.call("gather", {"commands": {"wait": ["sleep", "9"]}}, limit=60)
    host.power_on()
    after = (await open_all(inside, connect))["n01"]
    assert after.hello["boot_id"] != before.hello["boot_id"]


async def test_a_killed_helper_is_told_with_its_signal(inside: Lab, connectors: Connectors) -> None:
    session = (await open_all(inside, connectors()))["n01"]
    call = asyncio.create_task(session.call("gather", {"commands": {"wait": ["sleep", "9"]}}))
    await session.call("ping")
    os.kill(helper_of(inside.hosts[0], session), signal.SIGKILL)
    with pytest.raises(LostHostError, match="the node helper was killed by SIGKILL"):
        await asyncio.wait_for(call, 5)


async def test_a_connection_that_the_server_ends_is_told(inside: Lab, connectors: Connectors) -> None:
    session = (await open_all(inside, connectors()))["n01"]
    call = asyncio.create_task(session.call("gather", {"commands": {"wait": ["sleep", "9"]}}))
    await session.call("ping")
    for proc in inside.hosts[0].processes():
        if proc.argv[0].startswith("sshd: root"):
            os.kill(proc.pid, signal.SIGKILL)
    with pytest.raises(LostHostError, match=r"the SSH connection (broke|was closed)"):
        await asyncio.wait_for(call, 5)


async def test_giving_up_while_opening_leaves_nothing_on_the_hosts(inside: Lab, connectors: Connectors) -> None:
    connect = connectors()
    for host in inside.hosts:
        host.write("/root/.bashrc", "touch /tmp/began; sleep 1\n")
    opening = asyncio.create_task(connect.open_all([inside.plan_host(host) for host in inside.hosts]))
    await asyncio.to_thread(
        wait_until, lambda: all(host.path("/tmp/began").exists() for host in inside.hosts), "all logins to begin"
    )
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await connect.close_all()
    for host in inside.hosts:
        host.wait_idle()


async def test_closing_is_quick_and_sure_even_when_hosts_are_gone(inside: Lab, connectors: Connectors) -> None:
    connect = connectors()
    await open_all(inside, connect)
    inside.hosts[0].power_off()
    begin = time.monotonic()
    await connect.close_all()
    assert time.monotonic() - begin < 8


async def test_closing_ends_a_helper_that_was_stopped(inside: Lab, connectors: Connectors) -> None:
    """It would hold the lock for ever, and go on with what it was asked once somebody continues it."""
    connect, host = connectors(), inside.hosts[0]
    session = (await open_all(inside, connect))[host.name]
    os.kill(helper_of(host, session), signal.SIGSTOP)
    await connect.close_all()
    host.wait_idle()
