"""`watch` over fake hosts: who is restarted, how often, and what ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sgdeploy.deploy import supervise as module
from sgdeploy.deploy import up as up_module
from sgdeploy.deploy.events import Event, Note
from sgdeploy.deploy.supervise import supervise
from sgdeploy.deploy.up import up
from sgdeploy.errors import (
    CancelledRunError,
    HostFault,
    NotRunningError,
    PreflightError,
    StartupError,
    UnsetSecretError,
)
from sgdeploy.plan.model import Plan, RestartPolicy
from sgdeploy.remote.base import LostHostError, NodeError
from tests.unit.deploy.fakes import FakeConnector, Heard, cluster, dead, make_plan, ready, up_options
from tests.unit.deploy.test_parts import started

pytestmark = [pytest.mark.usefixtures("no_preflight"), pytest.mark.timeout(60)]


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.01)
    monkeypatch.setattr(module, "RETRY", 0.05)


def guarded(most: int = 2) -> Plan:
    return make_plan().model_copy(update={"restarts": {"native": RestartPolicy(max=most, backoff=0.01)}})


async def running(plan: Plan) -> FakeConnector:
    hosts = cluster(plan)
    await up(plan, hosts, Heard(), up_options())
    for node in hosts.nodes.values():
        node.calls.clear()
    return hosts


def kill(hosts: FakeConnector, plan: Plan) -> None:
    """Let the second rank die; its host tells of it, until it is started again."""
    rank, node = plan.processes[1], hosts.nodes["h2"]
    node.living.discard(rank.id)
    node.ended = {rank.id: {"signal": 9}}
    node.begun.set()
    node.script = [{"observations": [dead(rank)]}]

    def again() -> None:
        node.script = [{"observations": [ready(rank)]}]

    node.on_start = again


@contextmanager
def guard(plan: Plan, hosts: FakeConnector, heard: Heard) -> Iterator[asyncio.Task[None]]:
    task = asyncio.create_task(supervise(plan, lambda: hosts, heard, up_options(recorded=True)))
    yield task
    assert task.done()


def notes(heard: Heard) -> list[str]:
    return [event.message for event in heard.events if isinstance(event, Note)]


class Until(Heard):
    """Everything that was told, and a wait for a note."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self._news = asyncio.Event()

    def __call__(self, event: Event) -> None:
        """Take an event."""
        super().__call__(event)
        self._news.set()

    async def told(self, text: str) -> None:
        """Wait until a note with this text has been told."""

        async def look() -> None:
            while not any(text in message for message in notes(self)):
                self._news.clear()
                await self._news.wait()

        await asyncio.wait_for(look(), 20)


async def test_an_instance_that_lost_a_rank_comes_back_and_is_watched_on() -> None:
    plan, heard = guarded(), Until()
    hosts = await running(plan)
    kill(hosts, plan)
    with guard(plan, hosts, heard) as task:
        await heard.told("every rank is ready; restarted on failure: native")
        assert hosts.nodes["h1"].locked_by is None, "who only looks holds no lock"
        record = "".join(hosts.nodes["h1"].audited)
        assert ", because demo/native/h2: exit code 3" in record, "the history says why, as nobody asked for it"
        task.cancel()
        with pytest.raises(CancelledRunError, match="stopped watching; what runs goes on"):
            await task
    assert started(hosts) == {"h1": ["demo/native/h1"], "h2": ["demo/native/h2"]}
    assert "native restarts in 0.01 s (restart 1 in a row)" in notes(heard)
    assert "demo serves at http://127.0.1.1:30000" in notes(heard)


async def test_the_cap_ends_it_with_the_last_failure() -> None:
    plan, heard = guarded(2), Until()
    hosts = await running(plan)
    kill(hosts, plan)
    hosts.nodes["h2"].on_start = lambda: None
    with guard(plan, hosts, heard) as task, pytest.raises(StartupError, match="native has failed again") as caught:
        await task
    assert "after 2 restarts in a row" in str(caught.value)
    assert caught.value.exit_code == 6
    assert [fault.process for fault in caught.value.faults] == ["demo/native/h2"]
    assert "sgdeploy restart demo native" in (caught.value.hint or "")
    assert len(started(hosts)["h2"]) == 2
    assert hosts.nodes["h1"].living, "what is left is left for a look"


async def test_who_has_no_policy_is_not_touched() -> None:
    plan, heard = make_plan(), Until()
    hosts = await running(plan)
    kill(hosts, plan)
    with guard(plan, hosts, heard) as task, pytest.raises(StartupError, match="has no `restart:` for it"):
        await task
    assert started(hosts) == {"h1": [], "h2": []}
    assert "signal" not in hosts.nodes["h1"].ops()


async def test_what_was_taken_down_is_not_brought_back() -> None:
    plan, heard = guarded(), Until()
    with pytest.raises(NotRunningError, match="nothing runs"):
        await supervise(plan, lambda: cluster(plan), heard, up_options(recorded=True))
    hosts = await running(plan)
    kill(hosts, plan)
    hosts.nodes["h1"].locked_by = {"user": "ann"}
    with guard(plan, hosts, heard) as task:
        await heard.told("somebody else is at work on it")
        for node in hosts.nodes.values():
            node.living.clear()
            node.ended.clear()
            node.plan = node.launch = None
        hosts.nodes["h1"].locked_by = None
        with pytest.raises(NotRunningError, match="was taken down by somebody else"):
            await task
    assert started(hosts) == {"h1": [], "h2": []}


async def test_a_lost_host_is_waited_for_and_told_once() -> None:
    plan, heard = guarded(), Until()
    hosts = await running(plan)
    hosts.nodes["h2"].script = [LostHostError("h2", "connection reset")]
    hosts.nodes["h2"].on_loss = lambda: hosts.down.update({"h2": HostFault("h2", "no route to host")})
    with guard(plan, hosts, heard) as task:
        await heard.told("1 of 2 hosts could not be reached")
        await asyncio.sleep(0.3)
        assert sum("could not be reached" in message for message in notes(heard)) == 1
        hosts.nodes["h2"].script = [{"observations": [ready(plan.processes[1])]}]
        hosts.down.clear()
        await heard.told("every rank is ready")
        task.cancel()
        with pytest.raises(CancelledRunError):
            await task
    assert started(hosts) == {"h1": [], "h2": []}


def refusing(monkeypatch: pytest.MonkeyPatch, times: float) -> None:
    """Let the preflight find a full disk so many times."""
    left = times

    async def preflight(*_: object) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise PreflightError("1 problem on 1 of 2 hosts", [HostFault("h2", "no space left", "make room")])

    monkeypatch.setattr(up_module, "preflight", preflight)


async def test_a_restart_that_a_host_refuses_counts_as_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, heard = guarded(2), Until()
    hosts = await running(plan)
    kill(hosts, plan)
    refusing(monkeypatch, 1)
    with guard(plan, hosts, heard) as task:
        await heard.told("every rank is ready")
        task.cancel()
        with pytest.raises(CancelledRunError):
            await task
    assert "native cannot be started: no space left" in notes(heard)
    assert "native restarts in 0.02 s (restart 2 in a row)" in notes(heard)
    assert started(hosts) == {"h1": ["demo/native/h1"], "h2": ["demo/native/h2"]}


async def test_a_host_that_refuses_for_good_ends_it_at_the_cap_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, heard = guarded(2), Until()
    hosts = await running(plan)
    kill(hosts, plan)
    refusing(monkeypatch, float("inf"))
    with guard(plan, hosts, heard) as task, pytest.raises(StartupError, match="after 2 restarts in a row") as caught:
        await task
    assert caught.value.faults[0].reason == "not started: h2: no space left"


async def test_a_secret_without_a_value_is_told_before_anything_fails() -> None:
    plan = make_plan(api_key=True).model_copy(update={"restarts": {"native": RestartPolicy(max=2, backoff=0.01)}})
    hosts = cluster(plan)
    await up(plan, hosts, Heard(), up_options(secrets={"HF_TOKEN": "hf_value"}))
    with pytest.raises(UnsetSecretError, match="1 secret without a value") as caught:
        await supervise(plan, lambda: hosts, Heard(), up_options(recorded=True))
    assert "HF_TOKEN" in caught.value.faults[0].reason


async def test_a_restart_that_is_refused_when_the_old_records_are_gone_is_no_taking_down() -> None:
    plan, heard = guarded(2), Until()
    hosts = await running(plan)
    kill(hosts, plan)
    hosts.nodes["h2"].refuse["prepare"] = NodeError("h2", "no-space", "no space left on /run", {})
    with guard(plan, hosts, heard) as task, pytest.raises(NotRunningError) as caught:
        await task
    assert "could not be started again: h2: no space left on /run" in str(caught.value)
    assert caught.value.hint == "mend it, then `sgdeploy up demo`"
