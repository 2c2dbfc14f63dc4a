"""`logs`: lines of many hosts put into one order, read no faster than they are shown, and what is missing told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from sgdeploy.deploy.hostlogs import Grep, LogLine, LogsOptions
from sgdeploy.deploy.logs import logs
from sgdeploy.errors import HostFault, RemoteError, UsageError
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Json, LostHostError, NodeError
from tests.unit.deploy.fakes import FakeConnector, FakeNode, Heard, make_plan


class LogNode(FakeNode):
    """A host that sends ``script`` as its log, and counts what was taken."""

    taken = 0
    question: Mapping[str, Any] = {}

    async def stream(
        self, op: str, args: Mapping[str, Any] | None = None, *, silence: float = 15.0
    ) -> AsyncIterator[Json]:
        """Send the log; one that follows goes on until it is cancelled."""
        assert (op, silence > 2) == ("read_logs", True)
        self.question = args or {}
        for event in self.script:
            await asyncio.sleep(0)
            if isinstance(event, LostHostError | NodeError):
                raise event
            self.taken += 1
            yield event
        if self.question["follow"]:
            await asyncio.Event().wait()


def rows(host: str, *lines: tuple[float | None, str]) -> Json:
    """Give an event with lines of the process of a host."""
    return {"lines": [[f"demo/native/{host}", when, text] for when, text in lines]}


END: Json = {"caught_up": True, "missing": {}}


def make(plan: Plan, **scripts: Sequence[Any]) -> FakeConnector:
    """Give hosts that send these events."""
    nodes: dict[str, FakeNode] = {host.host: LogNode(host, script=scripts[host.host]) for host in plan.hosts}
    return FakeConnector(nodes)


class Shown:
    """What was shown; the reader goes after so many lines."""

    def __init__(self, enough: int = 1_000_000) -> None:
        """Show nothing yet."""
        self.lines: list[LogLine] = []
        self.changed = asyncio.Event()
        self._enough = enough

    async def __call__(self, lines: Sequence[LogLine]) -> bool:
        """Take lines."""
        self.lines += lines
        if lines:
            self.changed.set()
        return len(self.lines) < self._enough

    @property
    def texts(self) -> list[str]:
        """What they say."""
        return [line.text for line in self.lines]


async def test_the_histories_of_all_hosts_are_merged_by_our_clock() -> None:
    plan, shown, heard = make_plan(2), Shown(), Heard()
    one = [
        rows("h1", (3601.0, "a"), (3601.0, "its trace"), (3604.0, "d")),
        {"heartbeat": True},
        rows("h1", (3600.0, "e")),
        END,
    ]
    hosts = make(plan, h1=one, h2=[rows("h2", (None, "no time"), (2.0, "b"), (2.5, "c")), END])
    hosts.nodes["h1"].clock_ahead = 3600.0
    await logs(plan, hosts, shown, heard, LogsOptions(since=1.0, grep=Grep("x", invert=True), tail=7))
    assert shown.texts == ["no time", "a", "its trace", "b", "c", "d", "e"]
    assert shown.lines[1].time == pytest.approx(1.0, abs=0.2)
    assert heard.events == []
    question = asked(hosts, "h1")
    assert question["since"] == pytest.approx(3601.0, abs=0.2)
    assert question["grep"] == {"pattern": "x", "ignore_case": False, "invert": True}
    assert (question["tail"], question["part"], question["follow"]) == (7, "run", False)
    assert question["processes"] == [{"id": "demo/native/h1", "log": "native-n000.log", "utc": False}]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (LogsOptions(grep=Grep("x")), ["no line matches (1 log searched)"]),
        (LogsOptions(since=1.0), ["no line matches (1 log searched)"]),
        (LogsOptions(), []),
    ],
)
async def test_a_search_without_a_hit_says_so(options: LogsOptions, told: list[str]) -> None:
    heard, shown = Heard(), Shown()
    hosts = make(make_plan(2), h1=[END], h2=[{**END, "missing": {"demo/native/h2": "no log"}}])
    await logs(make_plan(2), hosts, shown, heard, options)
    assert [getattr(event, "message", "") for event in heard.events] == ["nothing of native/h2: no log", *told]


async def test_a_search_that_the_host_had_to_end_names_the_pattern() -> None:
    plan = make_plan(2)
    ended = LostHostError("h2", "the node helper was killed by SIGALRM")
    with pytest.raises(RemoteError) as raised:
        await logs(plan, make(plan, h1=[END], h2=[ended]), Shown(), Heard(), LogsOptions(grep=Grep("^(a+)+$")))
    assert [(f.host, f.reason) for f in raised.value.faults] == [
        ("h2", "--grep '^(a+)+$' takes too long: no line may take seconds to search")
    ]
    with pytest.raises(RemoteError) as raised:
        await logs(plan, make(plan, h1=[END], h2=[ended]), Shown(), Heard(), LogsOptions())
    assert raised.value.faults[0].reason == "the node helper was killed by SIGALRM"


def asked(hosts: FakeConnector, name: str) -> Mapping[str, Any]:
    """Give what a host was asked."""
    node = hosts.nodes[name]
    assert isinstance(node, LogNode)
    return node.question


async def test_hosts_that_are_missing_or_end_too_early_are_told_at_the_end() -> None:
    plan, shown, heard = make_plan(4), Shown(), Heard()
    refused = NodeError("h3", "denied", "cannot read /x", {})
    lost = [rows("h2", (1.0, "last words")), LostHostError("h2", "gone")]
    hosts = make(plan, h1=[rows("h1", (2.0, "well")), END], h2=lost, h3=[refused], h4=[])
    hosts.down["h4"] = HostFault("h4", "no route")
    with pytest.raises(RemoteError, match="logs of 3 of 4 hosts") as raised:
        await logs(plan, hosts, shown, heard, LogsOptions())
    assert [(fault.host, fault.reason) for fault in raised.value.faults] == [
        ("h4", "no route"),
        ("h3", "cannot read /x"),
        ("h2", "gone"),
    ]
    assert shown.texts == ["last words", "well"]
    assert all(node.closed for node in hosts.nodes.values())


async def test_where_no_host_answers_nothing_is_asked() -> None:
    plan = make_plan(1)
    hosts = make(plan, h1=[])
    hosts.down["h1"] = HostFault("h1", "no route")
    with pytest.raises(RemoteError, match="no host could be reached"):
        await logs(plan, hosts, Shown(), Heard(), LogsOptions())


async def test_processes_without_a_log_are_told_by_the_reason() -> None:
    plan, heard = make_plan(3), Heard()
    scripts = {
        f"h{n}": [{"caught_up": True, "missing": {f"demo/native/h{n}": "it has written no log"}}] for n in (1, 2)
    }
    await logs(plan, make(plan, **scripts, h3=[END]), Shown(), heard, LogsOptions())
    assert [getattr(event, "message", "") for event in heard.events] == [
        "nothing of native/h[1-2]: it has written no log"
    ]


async def test_only_the_hosts_of_what_is_selected_are_opened() -> None:
    plan = make_plan(3)
    hosts = make(plan, h1=[END], h2=[END], h3=[END])
    await logs(plan, hosts, Shown(), Heard(), LogsOptions(only=("h2",)))
    assert hosts.opened == ["h2"]
    with pytest.raises(UsageError, match="nothing in demo is called `h9`"):
        await logs(plan, hosts, Shown(), Heard(), LogsOptions(only=("h9",)))
    assert hosts.opened == ["h2"]


async def test_what_comes_is_followed_and_a_lost_host_told_at_once() -> None:
    plan, shown, heard = make_plan(3), Shown(), Heard()
    late = [rows("h1", (1.0, "old")), END, rows("h1", (9.0, "second"))]
    early = [END, rows("h2", (8.0, "first"))]
    hosts = make(plan, h1=late, h2=early, h3=[END, LostHostError("h3", "gone")])
    following = asyncio.ensure_future(logs(plan, hosts, shown, heard, LogsOptions(follow=True)))
    while len(shown.lines) < 3:
        shown.changed.clear()
        await asyncio.wait_for(shown.changed.wait(), 5)
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    assert shown.texts == ["old", "first", "second"]
    assert [(getattr(e, "level", ""), getattr(e, "hosts", ())) for e in heard.events] == [("warning", ("h3",))]


async def test_following_ends_when_the_last_host_is_lost() -> None:
    plan = make_plan(1)
    hosts = make(plan, h1=[END, rows("h1", (1.0, "new")), LostHostError("h1", "gone")])
    shown = Shown()
    with pytest.raises(RemoteError, match="logs of 1 of 1 host"):
        await logs(plan, hosts, shown, Heard(), LogsOptions(follow=True))
    assert shown.texts == ["new"]


@pytest.mark.parametrize("follow", [False, True])
async def test_nothing_is_read_for_a_reader_who_has_gone(*, follow: bool) -> None:
    plan = make_plan(1)
    hosts = make(plan, h1=[rows("h1", *[(1.0, "x")] * 100) for _ in range(50)] + [END])
    await logs(plan, hosts, Shown(enough=10), Heard(), LogsOptions(follow=follow))
    node = hosts.nodes["h1"]
    assert isinstance(node, LogNode)
    assert node.taken < 5


async def test_no_more_is_taken_than_is_shown() -> None:
    """A reader who does not read holds the hosts up, not the memory."""
    plan, held = make_plan(2), asyncio.Event()
    scripts = {name: [rows(name, *[(1.0, "x")] * 100) for _ in range(50)] + [END] for name in ("h1", "h2")}
    hosts = make(plan, **scripts)

    async def show(lines: Sequence[LogLine]) -> bool:
        assert len(lines) <= 200
        await held.wait()
        return True

    running = asyncio.ensure_future(logs(plan, hosts, show, Heard(), LogsOptions()))
    for _ in range(500):
        await asyncio.sleep(0)
    taken = [node.taken for node in hosts.nodes.values() if isinstance(node, LogNode)]
    assert max(taken) <= 4
    held.set()
    await running
