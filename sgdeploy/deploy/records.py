"""What the hosts have on record about a deployment, read back as typed values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sgdeploy.deploy.fleet import Fleet, Refusal
from sgdeploy.errors import HostFault
from sgdeploy.health.states import Exit
from sgdeploy.plan.model import Plan, PlanHost
from sgdeploy.remote.base import Connector, Json
from sgdeploy.words import plural


@dataclass(frozen=True)
class RecordedProcess:
    """One process as its host recorded it, and how it stands now.

    Attributes:
        id: id in the recorded plan.
        host: inventory name.
        pid: of the main process.
        alive: pid, start time and boot id all match a living process.
        exit: ``{"code": 3}`` or ``{"signal": 9}`` or None while it lives or where nobody saw its end.
        pids: all living descendants, itself included.
        seconds: since its start, by the host's own clock, or None where that is not on record.
        log: absolute path of its log on the host.
        rebooted: the host was booted anew since its start.
        offset: size of the log before the start.
    """

    id: str
    host: str
    pid: int | None
    alive: bool
    exit: Mapping[str, int] | None
    pids: tuple[int, ...]
    seconds: float | None
    log: str
    rebooted: bool = False
    offset: int = 0

    @property
    def ending(self) -> str:
        """Say how it ended: ``exit code 3``, ``killed by SIGKILL (9)``."""
        if self.rebooted:
            return "gone, its host was booted anew"
        if self.exit is None:
            return "ended, and nobody saw how"
        return Exit(self.exit.get("code"), self.exit.get("signal")).text()


@dataclass(frozen=True)
class Orphan:
    """A process that was started from the run folder, and that no record names any more.

    Attributes:
        pid: on its host.
        title: its command line, for people.
    """

    pid: int
    title: str


@dataclass(frozen=True)
class HostRecords:
    """All that one host has on record.

    Attributes:
        host: inventory name.
        launch: content of launch.json, or None where nothing was started.
        plan: the plan as it was started, or None.
        processes: every recorded process.
        orphans: what lives without a record: records were removed by hand, or damaged.
        damaged: what of the records cannot be read, in sentences.
    """

    host: str
    launch: Json | None
    plan: Plan | None
    processes: tuple[RecordedProcess, ...]
    orphans: tuple[Orphan, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def living(self) -> tuple[RecordedProcess, ...]:
        """Processes of which the main process or any descendant lives."""
        return tuple(process for process in self.processes if process.alive or process.pids)

    @property
    def empty(self) -> bool:
        """Nothing is on record, and nothing lives without one."""
        return not (self.launch or self.plan or self.processes or self.orphans or self.damaged)

    @property
    def orphans_fault(self) -> HostFault | None:
        """Say who lives here without a record, and how to end it: we touch only what is on record."""
        if not self.orphans:
            return None
        first, others = self.orphans[0], len(self.orphans) - 1
        more = f" and {plural(others, 'other')}" if others else ""
        pids = " ".join(str(orphan.pid) for orphan in self.orphans)
        return HostFault(
            self.host,
            f"live without a record there: pid {first.pid} ({first.title}){more}",
            f"records were removed or damaged; end them on the host: kill -KILL {pids}",
        )


@dataclass(frozen=True)
class Records:
    """Records of all hosts that answered, and the refusals of those that did not."""

    hosts: Mapping[str, HostRecords]
    refusals: Mapping[str, Refusal]

    @property
    def living(self) -> Iterator[RecordedProcess]:
        """All living processes of all hosts."""
        return (process for records in self.hosts.values() for process in records.living)

    @property
    def faults(self) -> tuple[HostFault, ...]:
        """One fault per host whose records could not be read."""
        return tuple(refusal.fault for refusal in self.refusals.values())

    @property
    def orphans(self) -> tuple[HostFault, ...]:
        """One fault per host on which something lives without a record."""
        return tuple(fault for found in self.hosts.values() if (fault := found.orphans_fault) is not None)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The distinct plans found, in host order (more than one only after a broken change)."""
        found: dict[str, Plan] = {}
        for records in self.hosts.values():
            if records.plan is not None:
                found.setdefault(records.plan.digest, records.plan)
        return tuple(found.values())


async def read_records(fleet: Fleet) -> Records:
    """Ask every open host what it has on record. What cannot be read is told there and hides nothing else."""
    answers = await fleet.ask("records", lambda host: {"run_dir": host.run_dir})
    plans = _Plans()
    hosts = {
        name: _parse(name, result, plans, now=fleet.sessions[name].hello["time"])
        for name, result in answers.results.items()
    }
    return Records(hosts, answers.refusals)


OpenMore: TypeAlias = "Callable[[tuple[PlanHost, ...]], Awaitable[Collection[str]]]"
"""Puts more hosts into a fleet, and gives the names of those that could not be opened."""


async def follow_records(fleet: Fleet, open_more: OpenMore, tried: Collection[PlanHost] = ()) -> Records:
    """Read records, and follow them to hosts that only the plans on record name.

    Args:
        fleet: open hosts.
        open_more: puts the others into it.
        tried: hosts that were not reached a moment ago; only under another address are they tried once more.
    """
    closed: set[str] = set()
    while True:
        records = await read_records(fleet)
        more = {host.host: host for plan in records.plans for host in plan.hosts}
        closed |= {name for name, host in more.items() if host in tried}
        unseen = tuple(host for name, host in more.items() if not fleet.has(name) and name not in closed)
        if not unseen:
            return records
        closed |= {*await open_more(unseen)}


@dataclass(frozen=True)
class Survey:
    """What the hosts of a deployment have on record, wherever they are; nothing was changed for it.

    Attributes:
        fleet: the open hosts.
        records: theirs.
        away: why the other hosts could not be opened.
    """

    fleet: Fleet
    records: Records
    away: tuple[HostFault, ...]


async def survey(connector: Connector, hosts: Sequence[PlanHost]) -> Survey:
    """Open hosts, and those that the plans on record there name, as far as they can be opened; read their records."""
    fleet, away = Fleet({}), list[HostFault]()

    async def open_more(more: Sequence[PlanHost]) -> Collection[str]:
        opened = await fleet.open_more(connector, more)
        away.extend(opened.faults)
        return [fault.host for fault in opened.faults]

    await open_more(hosts)
    records = await follow_records(fleet, open_more, [host for host in hosts if not fleet.has(host.host)])
    return Survey(fleet, records, tuple(away))


@dataclass
class _Plans:
    """Plans read so far: hosts of one deployment hold the same one, which is then read and checked once."""

    read: list[tuple[Json, Plan]] = field(default_factory=list)

    def get(self, body: Json) -> Plan:
        """Read a plan.

        Raises:
            ValueError: it is damaged or of another version.
        """
        for known, plan in self.read:
            if known == body:
                return plan
        plan = Plan.from_json(body)
        self.read.append((body, plan))
        return plan


def _parse(host: str, result: Json, plans: _Plans, *, now: float) -> HostRecords:
    damaged = tuple(result.get("damaged") or ())
    plan = None
    try:
        plan = plans.get(result["plan"]) if result.get("plan") is not None else None
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        damaged += (f"the plan on record cannot be read, it may come from another version of sgdeploy: {reason}",)
    launch = result.get("launch")
    if launch is not None and not isinstance(launch.get("id"), str):
        launch = None
        damaged += ("launch.json is damaged: it lacks the id of the launch",)
    return HostRecords(
        host=host,
        launch=launch,
        plan=plan,
        processes=tuple(_process(host, r, now, result.get("boot_id")) for r in result.get("processes", [])),
        orphans=tuple(Orphan(row["pid"], row["title"]) for row in result.get("unrecorded") or ()),
        damaged=damaged,
    )


def _process(host: str, record: Json, now: float, boot_id: str | None) -> RecordedProcess:
    return RecordedProcess(
        id=record["id"],
        host=host,
        pid=record.get("pid"),
        alive=bool(record["alive"]),
        exit=record.get("exit"),
        pids=tuple(record.get("pids") or ()),
        seconds=None if record.get("wall") is None else max(0.0, now - record["wall"]),
        log=record.get("log", ""),
        rebooted=record.get("boot_id") not in {None, boot_id},
        offset=record.get("offset") or 0,
    )
