"""`up` over fake hosts: what is asked in which order, and what is left when something fails."""

from __future__ import annotations

import asyncio
import time

import pytest

from sgdeploy.deploy.events import Completion, Event, HostState, Note, Outcome, ProcessFailed
from sgdeploy.deploy.up import up
from sgdeploy.errors import (
    CancelledRunError,
    HostFault,
    LockedError,
    PreflightError,
    RemoteError,
    StartupError,
    UnrecordedError,
    UnsetSecretError,
    WaitTimeoutError,
)
from sgdeploy.plan.model import Limits
from sgdeploy.remote.base import Json, LostHostError, NodeError
from tests.unit.deploy.fakes import Heard, cluster, dead, make_plan, up_options

pytestmark = pytest.mark.usefixtures("no_preflight")


async def test_a_healthy_cluster_comes_up_and_proves_it() -> None:
    plan, heard = make_plan(), Heard()
    hosts = cluster(plan)
    await up(plan, hosts, heard, up_options())
    assert [op for op in hosts.nodes["h1"].ops() if op not in {"records", "ping"}] == [
        "lock",
        "prepare",
        "audit",
        "watch",
        "start",
        "complete",
        "gather",
        "prepare",
        "audit",
        "unlock",
    ]
    ops = [op for op in hosts.nodes["h2"].ops() if op not in {"records", "ping"}]
    assert ops == ["prepare", "audit", "watch", "start"]
    assert isinstance(heard.events[-1], Outcome)
    assert heard.events[-1].outcome == "ready"
    assert [event.tokens for event in heard.events if isinstance(event, Completion)] == [3]
    assert all(node.closed for node in hosts.nodes.values())


async def test_the_name_is_remembered_before_anything_can_run() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    seen: list[bool] = []
    await up(plan, hosts, Heard(), up_options(remember=lambda: seen.append("start" in hosts.nodes["h1"].ops())))
    assert seen == [False]
    seen.clear()
    hosts = cluster(plan)
    await up(plan, hosts, Heard(), up_options(dry_run=True, remember=lambda: seen.append(True)))
    assert seen == []


async def test_records_are_written_before_the_first_start_anywhere() -> None:
    plan = make_plan(3)
    hosts = cluster(plan)
    order: list[tuple[str, str]] = []
    for name, node in hosts.nodes.items():
        node.calls = _Recorder(name, order)
    await up(plan, hosts, Heard(), up_options())
    first_start = min(index for index, (_, op) in enumerate(order) if op == "start")
    assert {host for host, op in order[:first_start] if op == "prepare"} == set(hosts.nodes)


class _Recorder(list[tuple[str, dict[str, object]]]):
    """A list of calls that also writes into one order over all hosts."""

    def __init__(self, host: str, order: list[tuple[str, str]]) -> None:
        super().__init__()
        self._host, self._order = host, order

    def append(self, call: tuple[str, dict[str, object]]) -> None:
        self._order.append((self._host, call[0]))
        super().append(call)


async def test_an_unreachable_host_stops_everything_before_anything() -> None:
    plan = make_plan(3)
    hosts = cluster(plan)
    hosts.down = {"h2": HostFault("h2", "connection refused", "start sshd")}
    with pytest.raises(RemoteError, match="1 of 3 hosts could not be reached") as caught:
        await up(plan, hosts, Heard(), up_options())
    assert caught.value.faults == (HostFault("h2", "connection refused", "start sshd"),)
    assert hosts.nodes["h1"].ops() == []


async def test_a_missing_secret_is_told_before_any_host_is_touched() -> None:
    plan = make_plan(api_key=True)
    hosts = cluster(plan)
    with pytest.raises(UnsetSecretError) as caught:
        await up(plan, hosts, Heard(), up_options())
    assert "HF_TOKEN is not set" in caught.value.faults[0].reason
    assert hosts.nodes["h1"].ops() == []


async def test_a_secret_travels_only_in_the_start_request() -> None:
    plan = make_plan(api_key=True)
    hosts = cluster(plan)
    await up(plan, hosts, Heard(), up_options(secrets={"HF_TOKEN": "s3cr3t"}))
    carrying = {op for op, arguments in hosts.nodes["h1"].calls if "s3cr3t" in repr(arguments)}
    assert carrying == {"start"}


async def test_a_held_lock_is_explained_and_nothing_is_written() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h1"].locked_by = {
        "user": "ann",
        "host": "desk",
        "pid": 5,
        "command": "sgdeploy up y.yaml",
        "since": 0.0,
    }
    with pytest.raises(LockedError, match=r"ann@desk \(pid 5\).*`sgdeploy up y.yaml`"):
        await up(plan, hosts, Heard(), up_options())
    assert "prepare" not in hosts.nodes["h2"].ops()


async def test_a_host_that_cannot_be_written_leaves_no_host_half_started() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].refuse["prepare"] = NodeError("h2", "no-space", "no space left on /var", {})
    with pytest.raises(PreflightError) as caught:
        await up(plan, hosts, Heard(), up_options())
    assert [fault.host for fault in caught.value.faults] == ["h2"]
    assert "start" not in hosts.nodes["h1"].ops()
    assert hosts.nodes["h1"].plan is None
    assert hosts.nodes["h1"].locked_by is None


async def test_a_failed_start_on_one_host_stops_the_others() -> None:
    plan = make_plan(3)
    hosts = cluster(plan)
    hosts.nodes["h3"].refuse["start"] = NodeError("h3", "hugepages-short", "asked for 2020 pages, got 12", {})
    with pytest.raises(PreflightError, match="starting failed on 1 host"):
        await up(plan, hosts, Heard(), up_options())
    assert not hosts.nodes["h1"].living
    assert not hosts.nodes["h2"].living
    assert "clear" in hosts.nodes["h1"].ops()


async def test_the_first_death_is_the_cause_whoever_reports_first() -> None:
    plan, heard = make_plan(3), Heard()
    hosts = cluster(plan)
    by_host = {process.host: process for process in plan.processes}
    hosts.nodes["h1"].script = [{"observations": [dead(by_host["h1"], code=1, ago=0.1)]}]
    hosts.nodes["h2"].script = [{"observations": [dead(by_host["h2"], code=3, ago=0.4)]}]
    with pytest.raises(StartupError) as caught:
        await up(plan, hosts, heard, up_options())
    assert [fault.process for fault in caught.value.faults] == ["demo/native/h2", "demo/native/h1"]
    assert caught.value.faults[0].reason == "exit code 3"
    assert caught.value.faults[0].lines == ("one", "boom")
    assert {event.process for event in heard.events if isinstance(event, ProcessFailed)} >= {"demo/native/h2"}
    assert not any(node.living for node in hosts.nodes.values())
    assert isinstance(heard.events[-1], Note)
    assert heard.events[-1].message == "what was started is stopped again; the logs stay on the hosts"


async def test_the_first_death_is_the_cause_also_when_a_clock_is_off_by_an_hour() -> None:
    plan = make_plan(2)
    hosts = cluster(plan)
    first, second = plan.processes
    hosts.nodes["h1"].script = [{"observations": [dead(first, code=1, ago=0.5)]}]
    hosts.nodes["h2"].script = [{"observations": [dead(second, code=3, ago=2.0, clock_ahead=3600.0)]}]
    hosts.nodes["h2"].clock_ahead = 3600.0
    with pytest.raises(StartupError) as caught:
        await up(plan, hosts, Heard(), up_options())
    assert [fault.process for fault in caught.value.faults] == ["demo/native/h2", "demo/native/h1"]
    assert 1.5 < (caught.value.faults[0].seconds_to_report or 0) < 4


async def test_keep_leaves_a_failed_bring_up_as_it_is() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    process = next(plan.on_host("h2"))
    hosts.nodes["h2"].script = [{"observations": [dead(process)]}]
    with pytest.raises(StartupError):
        await up(plan, hosts, Heard(), up_options(keep=True))
    assert hosts.nodes["h1"].living == {"demo/native/h1"}
    assert hosts.nodes["h1"].locked_by is None


async def test_a_completion_without_tokens_is_not_ready() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h1"].tokens = 0
    with pytest.raises(StartupError, match="no completion came back") as caught:
        await up(plan, hosts, Heard(), up_options())
    assert "no token in it" in caught.value.faults[0].reason


async def test_a_completion_that_never_ends_is_not_asked_for_again() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    asked: list[Json] = []

    def endless(arguments: Json) -> Json:
        asked.append(arguments)
        return {"status": None, "tokens": 0, "text": "", "seconds": 120.0, "error": "timeout"}

    hosts.nodes["h1"].answer_completion = endless
    with pytest.raises(StartupError) as caught:
        await up(plan, hosts, Heard(), up_options())
    assert len(asked) == 1
    assert "gave no whole answer within 120 s" in caught.value.faults[0].reason
    assert caught.value.faults[0].log == "/run/demo/h1/logs/native-n000.log"


async def test_the_overall_clock_names_who_is_missing() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].script = []
    with pytest.raises(WaitTimeoutError) as caught:
        await up(plan, hosts, Heard(), up_options(timeout=0.3))
    assert [missing.process for missing in caught.value.missing] == ["demo/native/h2"]
    assert not hosts.nodes["h1"].living


async def test_a_host_lost_while_watching_ends_up_at_once() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].script = [LostHostError("h2", "connection reset")]
    with pytest.raises(RemoteError, match="1 host lost") as caught:
        await up(plan, hosts, Heard(), up_options())
    assert caught.value.faults[0].host == "h2"


async def test_interrupting_keeps_what_runs_and_frees_the_lock() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].script = []
    task = asyncio.create_task(up(plan, hosts, Heard(), up_options()))
    await asyncio.wait_for(hosts.nodes["h2"].watched.wait(), 5)
    task.cancel()
    with pytest.raises(CancelledRunError) as caught:
        await task
    assert "sgdeploy down demo" in (caught.value.hint or "")
    assert hosts.nodes["h1"].living == {"demo/native/h1"}
    assert hosts.nodes["h1"].locked_by is None


async def test_interrupting_the_clean_up_of_a_failure_lets_it_end_and_tells_the_failure() -> None:
    plan, heard = make_plan(), Heard()
    hosts = cluster(plan)
    hosts.nodes["h2"].refuse["start"] = NodeError("h2", "hugepages-short", "asked 2020, granted 11", {})
    running: list[asyncio.Task[None]] = []

    def tell(event: Event) -> None:
        heard(event)
        if isinstance(event, HostState) and event.state == "stopping":
            running[0].cancel()

    running.append(asyncio.create_task(up(plan, hosts, tell, up_options())))
    with pytest.raises(PreflightError, match="starting failed on 1 host"):
        await running[0]
    assert hosts.nodes["h1"].living == set()
    assert hosts.nodes["h1"].plan is None
    assert hosts.nodes["h1"].closed


async def test_dry_run_changes_nothing() -> None:
    plan, heard = make_plan(), Heard()
    hosts = cluster(plan)
    await up(plan, hosts, heard, up_options(dry_run=True))
    assert set(hosts.nodes["h1"].ops()) <= {"records", "ping", "gather", "ports"}
    assert isinstance(heard.events[-1], Outcome)
    assert heard.events[-1].outcome == "dry-run"


async def test_no_wait_returns_once_everything_lives() -> None:
    plan, heard = make_plan(), Heard()
    hosts = cluster(plan)
    for node in hosts.nodes.values():
        node.script = []
    await up(plan, hosts, heard, up_options(wait=False))
    assert isinstance(heard.events[-1], Outcome)
    assert heard.events[-1].outcome == "started"
    assert "complete" not in hosts.nodes["h1"].ops()


async def test_nothing_is_started_beside_what_lives_without_a_record() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].orphans = [{"pid": 64, "title": "python3 -m sglang"}]
    with pytest.raises(UnrecordedError, match="processes of demo without a record run on 1 host") as caught:
        await up(plan, hosts, Heard(), up_options())
    assert caught.value.exit_code == 8
    assert caught.value.faults[0].host == "h2"
    assert "kill -KILL 64" in (caught.value.faults[0].hint or "")
    assert "prepare" not in hosts.nodes["h1"].ops()


async def test_time_in_which_we_stood_still_is_not_held_against_anybody() -> None:
    """Ctrl-Z and `fg`: what was said meanwhile is heard before the clocks are looked at."""
    plan = make_plan().model_copy(update={"limits": Limits(timeout=20, stall=1.0, grace=1)})
    hosts, heard = cluster(plan), Heard()
    hold = hosts.nodes["h2"].hold = asyncio.Event()

    def stand_still() -> None:
        time.sleep(3)
        asyncio.get_running_loop().call_later(0.2, hold.set)

    def soon(op: str) -> None:
        if op == "lock":
            asyncio.get_running_loop().call_later(0.5, stand_still)

    hosts.nodes["h1"].on_call = soon
    await up(plan, hosts, heard, up_options())
    assert isinstance(heard.events[-1], Outcome)


async def test_an_interruption_after_the_end_does_not_deny_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, heard = make_plan(), Heard()
    hosts = cluster(plan)
    closing = asyncio.Event()

    async def close_slowly() -> None:
        closing.set()
        await asyncio.sleep(5)

    monkeypatch.setattr(hosts, "close_all", close_slowly)
    task = asyncio.create_task(up(plan, hosts, heard, up_options()))
    await asyncio.wait_for(closing.wait(), 5)
    task.cancel()
    await task
    assert [event.outcome for event in heard.events if isinstance(event, Outcome)] == ["ready"]
