"""What becomes of each unit of a deployment when a plan meets what is on record: pure, so that every case is a test.

A unit is the smallest thing that starts and stops: an instance with all its ranks, a tokenizer, the router. It goes on
untouched where all of it lives and nothing that its processes were started with has changed. So the limits, the health
checks and the hosts of other units restart nothing; they are written on record and that is all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from sgdeploy.deploy.records import RecordedProcess, Records
from sgdeploy.deploy.serving import may_serve
from sgdeploy.plan.compare import Change, host_changes, process_changes
from sgdeploy.plan.model import Plan, PlanHost, Process
from sgdeploy.plan.selector import selected_units
from sgdeploy.words import name_list, plural

Fate: TypeAlias = Literal["keep", "start", "restart", "stop", "leave"]
"""``keep``: goes on as it is; ``leave``: not asked about, whatever it does (``--only``)."""

LATENT = ("health", "wait_for", "connects", "log")
"""Fields of a process that say how we treat it, or repeat others: it need not be started anew for them."""

BENEATH = ("address", "sysfs_root", "modules")
"""What of a host its processes were started upon; hugepages stand in the processes themselves."""


@dataclass(frozen=True)
class UnitFate:
    """What becomes of one unit.

    Attributes:
        unit: its selector.
        fate: what becomes of it.
        reasons: why, in sentences, where it is not for the changes alone.
        changed: what its processes would be started with: label of the process → what differs.
        hosts: where its processes live now.
        living: how many of its processes live.
        whole: all of it lives as far as is known, so it may be serving; who stops it takes something away.
        ended: how many of its processes were started and have ended.
    """

    unit: str
    fate: Fate
    reasons: tuple[str, ...] = ()
    changed: Mapping[str, tuple[Change, ...]] | None = None
    hosts: tuple[str, ...] = ()
    living: int = 0
    whole: bool = False
    ended: int = 0

    @property
    def disturbs(self) -> bool:
        """Whether something that may be serving ends."""
        return self.fate in {"restart", "stop"} and self.whole

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        changed = {label: [change.to_json() for change in changes] for label, changes in (self.changed or {}).items()}
        head = {"unit": self.unit, "fate": self.fate, "reasons": list(self.reasons), "changed": changed}
        return {
            **head,
            "hosts": list(self.hosts),
            "living": self.living,
            "ended": self.ended,
            "disturbs": self.disturbs,
        }


@dataclass(frozen=True)
class Replan:
    """What a plan makes of what is on record.

    Attributes:
        plan: that is wanted.
        units: each unit of the plan in the order of starting, then those that it does not have any more.
        stale: hosts on which another plan is on record than the one that is wanted.
    """

    plan: Plan
    units: tuple[UnitFate, ...]
    stale: tuple[str, ...] = ()

    def of(self, *fates: Fate) -> tuple[str, ...]:
        """Give the units of some fates, in order."""
        return tuple(unit.unit for unit in self.units if unit.fate in fates)

    @property
    def runs(self) -> bool:
        """Whether anything of the deployment lives."""
        return any(unit.living for unit in self.units)

    @property
    def disturbs(self) -> bool:
        """Whether something that may be serving ends."""
        return any(unit.disturbs for unit in self.units)

    @property
    def same(self) -> bool:
        """Whether all of the plan runs, as planned, and nothing else."""
        return not self.of("start", "restart", "stop", "leave") and not self.stale

    @property
    def going(self) -> frozenset[str]:
        """Units of which processes that live have to end first."""
        return frozenset(unit.unit for unit in self.units if unit.fate in {"restart", "stop"})

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        units = [unit.to_json() for unit in self.units]
        return {"same": self.same, "disturbs": self.disturbs, "records_only": list(self.stale), "units": units}


def replan(plan: Plan, records: Records, only: Collection[str] = (), *, anew: Collection[str] | None = None) -> Replan:
    """Hold a plan against what is on record.

    Args:
        plan: that is wanted.
        records: what the hosts have, and what of it lives.
        only: selectors of what is asked about; empty for everything.
        anew: selectors of what has to restart whatever it does, empty for everything; None for nothing.

    Raises:
        UsageError: a selector means nothing, or only a part of an instance.
    """
    found = _Found.of(plan, records)
    asked = _with_halves(plan, found, selected_units(plan, tuple(only)))
    forced = () if anew is None else selected_units(plan, tuple(anew))
    fates: list[UnitFate] = []
    for stage in plan.stages:
        begun = {fate.unit for fate in fates if fate.fate in {"start", "restart"}}
        fates += [
            _fate(plan, found, unit, begun, forced=unit in forced) if unit in asked else _left(plan, found, unit, begun)
            for unit in stage
        ]
    planned = {unit for stage in plan.stages for unit in stage}
    if not only and anew is None:
        fates += [_gone(plan, found, unit) for unit in found.units if unit not in planned]
    hosts = {host.host for host in plan.hosts}
    stale = (
        name
        for name, there in records.hosts.items()
        if name in hosts and there.processes and (there.plan is None or there.plan.digest != plan.digest)
    )
    return Replan(plan, tuple(fates), tuple(stale))


@dataclass(frozen=True)
class _Found:
    """What is on record, by unit."""

    units: Mapping[str, tuple[RecordedProcess, ...]]
    planned: Mapping[str, Process]
    """The process of each id as it was planned when it was started, where that can be read."""

    hosts: Mapping[str, PlanHost]
    records: Records

    @classmethod
    def of(cls, plan: Plan, records: Records) -> _Found:
        wanted = {process.id: process for process in plan.processes}
        known = {p.id: p for recorded in records.plans for p in recorded.processes}
        units: dict[str, list[RecordedProcess]] = {}
        planned: dict[str, Process] = {}
        hosts: dict[str, PlanHost] = {}
        for name, there in records.hosts.items():
            own = {} if there.plan is None else {process.id: process for process in there.plan.processes}
            planned.update({each.id: own[each.id] for each in there.processes if each.id in own})
            if there.plan is not None:
                hosts.update({host.host: host for host in there.plan.hosts if host.host == name})
            for each in there.processes:
                process = own.get(each.id) or known.get(each.id) or wanted.get(each.id)
                unit = process.unit if process is not None else each.id.partition("/")[2] or each.id
                units.setdefault(unit, []).append(each)
        return cls({unit: tuple(rows) for unit, rows in units.items()}, planned, hosts, records)


def _with_halves(plan: Plan, found: _Found, units: tuple[str, ...]) -> frozenset[str]:
    """Add to units the tokenizers of them that run: an instance does not restart without its other half."""
    halves = {
        process.unit
        for process in plan.processes
        if process.role == "tokenizer" and {*process.wait_for} & {*units} and _living(found.units.get(process.unit, ()))
    }
    return frozenset({*units, *halves})


def _living(rows: Collection[RecordedProcess]) -> list[RecordedProcess]:
    return [row for row in rows if row.alive or row.pids]


def _fate(plan: Plan, found: _Found, unit: str, begun: Collection[str], *, forced: bool) -> UnitFate:
    rows = found.units.get(unit, ())
    living = _living(rows)
    processes = plan.of_units({unit})
    if not living:
        return UnitFate(unit, "start", tuple(_ends(rows)), ended=len(rows))
    whole = may_serve(unit, rows, found.records, plan)
    reasons = [*_ends(rows), *_never_begun(processes, rows), *_out_of_place(processes, living)]
    reasons += [f"it belongs to {other}, which is started" for other in _served_by(processes, begun)]
    if forced:
        reasons.append("asked for")
    changed, unread = _changes(plan, found, processes, living)
    reasons += unread
    fate: Fate = "restart" if reasons or changed else "keep"
    hosts = tuple(dict.fromkeys(row.host for row in living))
    ended = sum(not row.alive for row in rows)
    return UnitFate(unit, fate, tuple(reasons), changed, hosts, len(living), whole, ended)


def _left(plan: Plan, found: _Found, unit: str, begun: Collection[str]) -> UnitFate:
    """Give what becomes of a unit that nobody asked about: it goes on, or is told to be in the way."""
    fate = _fate(plan, found, unit, begun, forced=False)
    if fate.fate == "keep":
        return fate
    return replace(fate, fate="leave")


def _gone(plan: Plan, found: _Found, unit: str) -> UnitFate:
    rows = found.units[unit]
    living = _living(rows)
    hosts = tuple(dict.fromkeys(row.host for row in living))
    reasons = ("it is not in the plan any more",)
    whole = may_serve(unit, rows, found.records, plan)
    return UnitFate(unit, "stop", reasons, None, hosts, len(living), whole)


def _ends(rows: Collection[RecordedProcess]) -> Iterator[str]:
    """Say which of its processes ended, and how: the first one, and how many others."""
    ended = [row for row in rows if not row.alive]
    if ended:
        first, others = ended[0], len(ended) - 1
        more = f", and {plural(others, 'other')} too" if others else ""
        yield f"{first.id.partition('/')[2]} on {first.host}: {first.ending}{more}"


def _never_begun(processes: Collection[Process], rows: Collection[RecordedProcess]) -> Iterator[str]:
    known = {row.id for row in rows}
    missing = [process for process in processes if process.id not in known]
    if missing:
        names = name_list(process.label for process in missing)
        yield f"{names} of it {'was' if len(missing) == 1 else 'were'} never started"


def _out_of_place(processes: Collection[Process], living: Collection[RecordedProcess]) -> Iterator[str]:
    planned = {process.id for process in processes}
    others = [row for row in living if row.id not in planned]
    if others:
        verb = "runs" if len(others) == 1 else "run"
        yield f"{name_list(row.id.partition('/')[2] for row in others)} {verb}, and the plan has no such process"


def _served_by(processes: Collection[Process], begun: Collection[str]) -> Iterator[str]:
    """Give the instances of which these are one half (a tokenizer apart) and that are about to begin anew."""
    waited = {name for process in processes if process.role == "tokenizer" for name in process.wait_for}
    return (unit for unit in begun if unit in waited)


def _changes(
    plan: Plan, found: _Found, processes: Collection[Process], living: Collection[RecordedProcess]
) -> tuple[dict[str, tuple[Change, ...]], list[str]]:
    """Tell what living processes of a unit would be started with that they were not, and which cannot be compared."""
    alive = {row.id for row in living}
    hosts = {host.host: host for host in plan.hosts}
    changed: dict[str, tuple[Change, ...]] = {}
    unread: list[str] = []
    for process in processes:
        if process.id not in alive:
            continue
        before = found.planned.get(process.id)
        if before is None:
            unread.append(f"what {process.label} was started with is not on record")
            continue
        own = process_changes(before, process, without=LATENT)
        was = found.hosts.get(process.host)
        beneath = () if was is None else host_changes(was, hosts[process.host], BENEATH)
        if own or beneath:
            changed[process.label] = (*own, *beneath)
    return changed, unread
