"""An in-memory host that speaks the node protocol's operations: order and content of calls can be looked at."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sgdeploy.deploy.events import Event
from sgdeploy.deploy.options import DownOptions, Owner, UpOptions
from sgdeploy.errors import HostFault
from sgdeploy.plan.model import FrontDoor, Health, Limits, Plan, PlanHost, Process, SecretRef
from sgdeploy.remote.base import Json, LostHostError, NodeError, NodeSession, Opened

OWNER = Owner("op", "laptop", 42, "sgdeploy up x.yaml")


def make_plan(hosts: int = 2, *, name: str = "demo", api_key: bool = False) -> Plan:
    """Give a native plan with one process on each host; the first leads."""
    names = [f"h{number}" for number in range(1, hosts + 1)]
    processes = tuple(
        Process(
            id=f"{name}/native/{host}",
            role="native",
            host=host,
            address=f"127.0.1.{index + 1}",
            node_rank=index,
            leader=index == 0,
            argv=("python3", "-I", "-S", "engine.py"),
            env={"HF_TOKEN": SecretRef.model_validate({"secret": "env:HF_TOKEN"})} if api_key else {},
            listens={"http": 30000, "bootstrap": None},
            log=f"native-n{index:03d}.log",
            health=Health(
                milestones="engine" if index == 0 else "engine-follower", http="/health" if index == 0 else None
            ),
        )
        for index, host in enumerate(names)
    )
    return Plan(
        name=name,
        topology="native",
        platform="cpu",
        engine_version="0.5.23",
        stages=(("native",),),
        hosts=tuple(
            PlanHost(host=host, address=f"127.0.1.{i + 1}", ssh=host, connection="local", run_dir=f"/run/{name}/{host}")
            for i, host in enumerate(names)
        ),
        processes=processes,
        front_door=FrontDoor(host="h1", address="127.0.1.1", port=30000, model="m"),
        limits=Limits(timeout=20, stall=10, grace=1),
    )


def up_options(**changes: Any) -> UpOptions:
    """Give options with our test owner."""
    return UpOptions(owner=OWNER, **changes)


def down_options(**changes: Any) -> DownOptions:
    """Give options with our test owner."""
    return DownOptions(owner=OWNER, **changes)


@dataclass
class FakeNode:
    """One host. ``refuse`` maps an operation to what it raises; ``script`` is what ``watch`` sends.

    Attributes:
        calls: every operation in the order in which it came, with its arguments.
        living: ids that run.
        logs: lines by id.
        told_to_end: when its processes were told to end, by its own clock.
        stubborn: ids that no signal ends.
        audited: lines of the audit log.
        kept: plans that were kept, by the begin of their digests.
        ended: ids that have ended and are on record, and how (None: nobody saw it).
        lost: why it does not answer any more, until it is opened again; being refused by a loss loses a host.
    """

    host: PlanHost
    calls: list[tuple[str, Json]] = field(default_factory=list)
    refuse: dict[str, NodeError | LostHostError] = field(default_factory=dict)
    script: Sequence[Json | LostHostError] = field(default_factory=list)
    living: set[str] = field(default_factory=set)
    stubborn: set[str] = field(default_factory=set)
    audited: list[str] = field(default_factory=list)
    kept: dict[str, Json] = field(default_factory=dict)
    ended: dict[str, Json | None] = field(default_factory=dict)
    plan: Json | None = None
    locked_by: Json | None = None
    holds: bool = False
    listening: list[Json] = field(default_factory=list)
    orphans: list[Json] = field(default_factory=list)
    gathered: Json = field(default_factory=dict)
    tokens: int = 3
    closed: bool = False
    lost: LostHostError | None = None
    hold: asyncio.Event | None = None
    launch: Json | None = None
    answer_completion: Callable[[Json], Json] | None = None
    on_loss: Callable[[], object] = lambda: None
    clock_ahead: float = 0.0
    workers: list[str] = field(default_factory=list)
    logs: dict[str, list[str]] = field(default_factory=dict)
    told_to_end: float | None = None
    on_call: Callable[[str], None] = lambda _op: None
    on_start: Callable[[], None] = lambda: None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    robbed: asyncio.Event = field(default_factory=asyncio.Event)
    watched: asyncio.Event = field(default_factory=asyncio.Event)
    hello: Json = field(default_factory=lambda: {"time": 1000.0, "python": "3.11.7"})

    def ops(self) -> list[str]:
        """Give the names of the operations that came, in order."""
        return [op for op, _ in self.calls]

    async def call(self, op: str, args: Mapping[str, Any] | None = None, *, limit: float = 30.0) -> Json:
        """Answer one operation."""
        assert limit > 0
        await asyncio.sleep(0)
        arguments = dict(args or {})
        if op == "lock_hold":
            return await self._hold_lock()
        self.calls.append((op, arguments))
        self.on_call(op)
        self._refuse(op)
        answer = getattr(self, f"_{op}", None)
        return {} if answer is None else answer(arguments)

    async def stream(
        self, op: str, args: Mapping[str, Any] | None = None, *, silence: float = 15.0
    ) -> AsyncIterator[Json]:
        """Answer one streaming operation."""
        assert silence > 0
        arguments = dict(args or {})
        self.calls.append((op, arguments))
        if op == "watch":
            self.watched.set()
        self._refuse(op)
        if op == "start":
            self.launch = arguments["launch"]
            self.on_start()
            for process in arguments["processes"]:
                self.living.add(process["id"])
                self.begun.set()
                yield {"started": process["id"], "pid": 7}
            return
        if not self.living:
            await self.begun.wait()
        if self.hold is not None:
            await self.hold.wait()
        for event in self.script:
            await asyncio.sleep(0)
            if isinstance(event, LostHostError):
                self._lose(event)
                raise event
            yield event
        await asyncio.Event().wait()

    def _refuse(self, op: str) -> None:
        refusal = self.refuse.get(op)
        if isinstance(refusal, LostHostError):
            self._lose(refusal)
        if self.lost is not None:
            raise self.lost
        if refusal is not None:
            raise refusal

    def _lose(self, loss: LostHostError) -> None:
        self.lost = loss
        self.on_loss()

    async def close(self) -> None:
        """Close; the lock goes with the session."""
        self.closed = True
        if self.holds:
            self.locked_by, self.holds = None, False

    def _ping(self, _arguments: Json) -> Json:
        return {"time": time.time() + self.clock_ahead}

    async def _hold_lock(self) -> Json:
        await self.robbed.wait()
        raise NodeError(self.host.host, "lock-taken", "taken by ann", {})

    def _lock(self, arguments: Json) -> Json:
        if self.locked_by is not None:
            raise NodeError(self.host.host, "locked", "locked", {"owner": self.locked_by})
        self.locked_by, self.holds = arguments["owner"], True
        return {}

    def _unlock(self, _arguments: Json) -> Json:
        self.locked_by, self.holds = None, False
        return {}

    def _lock_owner(self, _arguments: Json) -> Json:
        return {"owner": self.locked_by}

    def _prepare(self, arguments: Json) -> Json:
        if arguments["run_dir"] != self.host.run_dir:
            self.kept[arguments["run_dir"].rpartition("/")[2]] = arguments["plan"]
            return {}
        self.plan = arguments["plan"]
        return {}

    def _audit(self, arguments: Json) -> Json:
        moment = f"2026-11-29T17:00:{len(self.audited):02d}Z"
        self.audited.append(f"{moment} {arguments['who']}: {arguments['what']}\n")
        return {}

    def _clear(self, arguments: Json) -> Json:
        if arguments["run_dir"] != self.host.run_dir:
            self.kept.pop(arguments["run_dir"].rpartition("/")[2], None)
            return {}
        gone = arguments.get("ids")
        self.ended = {name: end for name, end in self.ended.items() if gone is not None and name not in gone}
        if gone is None:
            self.plan = self.launch = None
        if not self.living and not self.ended:
            self.begun.clear()
        return {}

    def _records(self, arguments: Json) -> Json:
        if arguments["run_dir"] != self.host.run_dir:
            return {"launch": None, "plan": self.kept.get(arguments["run_dir"].rpartition("/")[2]), "processes": []}
        rows: list[Json] = [
            {"id": name, "pid": 7, "alive": True, "exit": None, "pids": [7], "wall": 990.0, "log": "x.log"}
            for name in sorted(self.living)
        ]
        rows += [
            {"id": name, "pid": 8, "alive": False, "exit": end, "pids": [], "wall": 990.0, "log": "x.log"}
            for name, end in self.ended.items()
            if name not in self.living
        ]
        found = {"plan": self.plan, "processes": rows, "unrecorded": self.orphans}
        return {"launch": self.launch or ({"id": "l1"} if self.living else None), **found}

    def _logs(self, arguments: Json) -> Json:
        ids = arguments["ids"] if arguments["ids"] is not None else list(self.logs)
        found = {name: self.logs.get(name, []) for name in ids}
        return {"logs": {name: {"path": f"/logs/{name}", "lines": lines, "size": 1} for name, lines in found.items()}}

    def _last_run(self, arguments: Json) -> Json:
        rest = {"first": 1, "size": 1, "exit": None, "asked": self.told_to_end}
        found = {each["id"]: self.logs.get(each["id"]) for each in arguments["processes"]}
        logs = {name: lines or [] for name, lines in found.items() if self.living or self.ended or lines is not None}
        return {"logs": {name: {"path": f"/logs/{name}", "lines": lines, **rest} for name, lines in logs.items()}}

    def _gather(self, arguments: Json) -> Json:
        if "tail" in arguments.get("commands", {}):
            return {"commands": {"tail": {"rc": 0, "out": "".join(self.audited), "err": ""}}}
        return self.gathered

    def _ports(self, _arguments: Json) -> Json:
        return {"listening": self.listening}

    def _signal(self, arguments: Json) -> Json:
        if arguments["signal"] == "KILL" or arguments["scope"] == "main":
            self.living -= set(arguments["ids"]) - self.stubborn
            if not self.living:
                self.begun.clear()
        return {"signalled": [7]}

    def _await_gone(self, arguments: Json) -> Json:
        left = self.living & set(arguments["ids"])
        return {"survivors": [{"id": name, "pid": 7, "title": "sglang"} for name in sorted(left)]}

    def _http(self, _arguments: Json) -> Json:
        rows = [{"url": url, "is_healthy": True} for url in self.workers]
        return {"status": 200, "body": json.dumps({"workers": rows}), "error": None}

    def _complete(self, arguments: Json) -> Json:
        if self.answer_completion is not None:
            return self.answer_completion(arguments)
        return {"status": 200, "tokens": self.tokens, "text": " Paris", "seconds": 0.1, "error": None}


@dataclass
class FakeConnector:
    """Opens fake nodes, lost ones again; ``down`` are hosts that cannot be reached, ``opened`` what was asked for."""

    nodes: dict[str, FakeNode]
    down: dict[str, HostFault] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)

    async def open_all(self, hosts: Sequence[PlanHost]) -> Opened:
        """Open what can be opened."""
        names = [host.host for host in hosts]
        self.opened += names
        for name in set(names) - set(self.down):
            self.nodes[name].lost = None
        sessions: dict[str, NodeSession] = {name: self.nodes[name] for name in names if name not in self.down}
        return Opened(sessions, tuple(self.down[name] for name in names if name in self.down))

    async def close_all(self) -> None:
        """Close all."""
        for node in self.nodes.values():
            await node.close()


def cluster(plan: Plan) -> FakeConnector:
    """Give a connector to one healthy fake node per host: its rank loads, and the leader answers."""
    nodes = {}
    for host in plan.hosts:
        process = next(plan.on_host(host.host))
        node = FakeNode(host)
        node.script = [{"observations": [ready(process)]}]
        nodes[host.host] = node
    return FakeConnector(nodes)


def ready(process: Process) -> Json:
    """Give the observation of a process that has come all the way up."""
    from sgdeploy.engine.milestones import milestone_sets

    assert process.health.milestones is not None
    names = [each.name for each in milestone_sets()[process.health.milestones].milestones]
    http = {"code": 200} if process.health.http else None
    return {
        "process": process.id,
        "alive": True,
        "milestones": names,
        "log_bytes": 9,
        "line": "x",
        "http": http,
        "pids": 3,
    }


def dead(process: Process, *, code: int = 3, ago: float = 0.1, clock_ahead: float = 0.0) -> Json:
    """Give the observation of a process that ended ``ago`` seconds before now, on a host whose clock is ahead."""
    return {
        "process": process.id,
        "alive": False,
        "exit": {"code": code},
        "died_ago": 0.0,
        "died_at": time.time() + clock_ahead - ago,
        "milestones": [],
        "log_bytes": 9,
        "line": "boom",
        "http": None,
        "pids": 0,
        "tail": ["one", "boom"],
    }


@dataclass
class Heard:
    """Everything that was told."""

    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        """Take an event."""
        self.events.append(event)

    def kinds(self) -> list[str]:
        """Give the kinds of events in order."""
        return [event.kind for event in self.events]
