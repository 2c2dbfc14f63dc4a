"""Hosts that are this machine, through the connector and with the real helper."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from sgdeploy.node.boot import BOOTSTRAP
from sgdeploy.plan.model import PlanHost
from sgdeploy.remote.base import Connector, LostHostError
from sgdeploy.remote.channel import packed
from sgdeploy.remote.connect import HostConnector, connector

pytestmark = pytest.mark.usefixtures("no_leaks")


def host(name: str, tmp_path: Path) -> PlanHost:
    return PlanHost(host=name, address="127.0.1.1", ssh=name, connection="local", run_dir=str(tmp_path / name))


@pytest.fixture
async def connect() -> AsyncIterator[Connector]:
    made = connector(greeting_timeout=20)
    yield made
    await made.close_all()


def environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


async def test_sudo_goes_before_the_helper(connect: Connector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "sudo"
    program.write_text('#!/bin/sh\n[ "$1 $2 $3" = "-n -H --" ] || exit 1\nshift 3\nAS_ROOT=yes exec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    opened = await connect.open_all([host("n0", tmp_path), host("n1", tmp_path).model_copy(update={"sudo": True})])
    assert opened.faults == ()
    assert {name: b"AS_ROOT=yes" in environment(it.hello["pid"]) for name, it in opened.sessions.items()} == {
        "n0": False,
        "n1": True,
    }


async def test_many_local_hosts_each_have_a_helper(connect: Connector, tmp_path: Path) -> None:
    opened = await connect.open_all([host(f"n{k}", tmp_path) for k in range(4)])
    assert opened.faults == ()
    assert list(opened.sessions) == ["n0", "n1", "n2", "n3"]
    assert len({session.hello["pid"] for session in opened.sessions.values()}) == 4
    assert (await opened.sessions["n0"].call("ping"))["time"] > 0


async def test_an_open_host_is_opened_once(connect: Connector, tmp_path: Path) -> None:
    first = await connect.open_all([host("n0", tmp_path)])
    again = await connect.open_all([host("n0", tmp_path), host("n1", tmp_path)])
    assert again.sessions["n0"] is first.sessions["n0"]


async def test_a_lost_host_is_opened_anew(connect: Connector, tmp_path: Path) -> None:
    first = (await connect.open_all([host("n0", tmp_path)])).sessions["n0"]
    waiting = asyncio.create_task(first.call("watch", {"run_dir": str(tmp_path), "ids": None}))
    await first.call("ping")
    os.kill(first.hello["pid"], signal.SIGKILL)
    with pytest.raises(LostHostError, match="killed by SIGKILL"):
        await waiting
    second = (await connect.open_all([host("n0", tmp_path)])).sessions["n0"]
    assert second is not first
    assert (await second.call("ping"))["time"] > 0


async def test_closing_ends_the_helpers(tmp_path: Path) -> None:
    made = connector()
    opened = await made.open_all([host("n0", tmp_path)])
    pid = opened.sessions["n0"].hello["pid"]
    await made.close_all()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_giving_up_while_opening_leaves_nothing(tmp_path: Path) -> None:
    made = connector()
    opening = asyncio.create_task(made.open_all([host(f"n{k}", tmp_path) for k in range(4)]))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await made.close_all()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"import sys; sys.exit('cannot write /var')\n", "exit code 1: cannot write /var"),
        (b"import time; time.sleep(60)\n", "has not begun within 0.5 s"),
        (b"print('x' * 2_000_000); import time; time.sleep(60)\n", "prints without end"),
    ],
)
async def test_a_helper_that_never_begins_is_a_fault(source: bytes, reason: str, tmp_path: Path) -> None:
    made = connector(greeting_timeout=0.5)
    assert isinstance(made, HostConnector)
    made.helper = partial(packed, {"boot": source})
    opened = await made.open_all([host("n0", tmp_path)])
    await made.close_all()
    assert not opened.sessions
    assert reason in opened.faults[0].reason


def test_the_bootstrap_can_stand_in_single_quotes_of_any_shell() -> None:
    assert not set("'!$\\\n`") & set(BOOTSTRAP)


@pytest.mark.parametrize(("tag", "way"), [("", "bytecode"), ("cpython-30", "source")])
async def test_the_bootstrap_reads_its_program_and_not_a_byte_more(tag: str, way: str) -> None:
    # A Python whose tag is another takes the source.
    program = "import os\ndef boot(modules, parcel): print(__name__, '{}', len(parcel), os.read(0, 99))\n"
    modules, codes = {"boot": program.format("source").encode()}, {"boot": program.format("bytecode")}
    parcel = tag.encode() + packed(modules, {name: compile(text, "", "exec") for name, text in codes.items()})
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        f"exec {sys.executable} -I -S -u -c '{BOOTSTRAP}'",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(parcel + b"next line\n"), 10)
    assert out == f"sgdeploy-node.boot {way} {len(parcel)} b'next line\\n'\n".encode()
