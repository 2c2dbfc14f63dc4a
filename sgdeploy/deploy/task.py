"""What one `up` has to do, given what is on record: pure, so that every refusal is a test."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sgdeploy.deploy.parts import Part
from sgdeploy.deploy.records import Records
from sgdeploy.deploy.replan import Replan, replan
from sgdeploy.errors import RemoteError, StateError, UnrecordedError
from sgdeploy.plan.model import Plan, PlanHost, Process
from sgdeploy.words import name_list, plural


@dataclass(frozen=True)
class Task:
    """What is to be done.

    Attributes:
        plan: the whole plan.
        fates: what becomes of each unit.
        stages: units to start, stage by stage, in the plan's stages.
        running: processes of units that go on as they are.
        launch_id: of what goes on, so that the records stay one launch; None where nothing does.
        parts: host → what has to end there first.
    """

    plan: Plan
    fates: Replan
    stages: tuple[tuple[str, ...], ...]
    running: tuple[Process, ...]
    launch_id: str | None
    parts: Mapping[str, Part]

    @property
    def units(self) -> frozenset[str]:
        """All units that are to be started."""
        return frozenset(unit for stage in self.stages for unit in stage)

    @property
    def replaced(self) -> tuple[str, ...]:
        """Units that may have been serving, as another plan says, until this change ended them."""
        return tuple(each.unit for each in self.fates.units if each.disturbs and each.changed)

    @property
    def processes(self) -> tuple[Process, ...]:
        """Everything that is to be started, in plan order."""
        return self.plan.of_units(self.units)

    @property
    def hosts(self) -> tuple[PlanHost, ...]:
        """Hosts on which something is to be started."""
        names = {process.host for process in self.processes}
        return tuple(host for host in self.plan.hosts if host.host in names)

    @property
    def scope(self) -> Plan:
        """The plan cut down to what is to be started: what preflight looks at."""
        return self.plan.model_copy(update={"processes": self.processes, "hosts": self.hosts})

    @property
    def complete(self) -> bool:
        """Whether the whole plan runs once this is started."""
        return len(self.processes) + len(self.running) == len(self.plan.processes)

    @property
    def written(self) -> tuple[str, ...]:
        """Hosts that get the plan: those on which something starts, or goes on under another one."""
        stale = {process.host for process in self.running} & {*self.fates.stale}
        wanted = {host.host for host in self.hosts} | stale
        return tuple(host.host for host in self.plan.hosts if host.host in wanted)

    @property
    def watched(self) -> Plan:
        """The plan cut down to what is to be ready in the end: who was left out may be broken."""
        processes = self.plan.of_units({*self.units, *self.fates.of("keep")})
        return self.plan.model_copy(update={"processes": processes})

    def stale(self, records: Records) -> dict[str, Part]:
        """Give what is on record of units that are about to start, host by host: none of it lives.

        Where nothing else is on record, the host is put back as a whole, also one that the plan does not have any more.
        """
        starting = {host.host for host in self.hosts}
        planned = {host.host for host in self.plan.hosts}
        found = {name: there for name, there in records.hosts.items() if not there.empty and not there.orphans}
        parts = {name: Part.of(there, there.plan or self.plan, self.units) for name, there in found.items()}
        touched = {n: part for n, part in parts.items() if part.ids or n in starting or n not in planned}
        return {name: part for name, part in touched.items() if not part.living and (part.ids or part.whole)}

    @property
    def idle(self) -> bool:
        """Whether there is nothing to start, to end or to write."""
        return not self.units and not self.parts and not self.written


def make_task(plan: Plan, only: tuple[str, ...], records: Records, *, anew: Collection[str] | None = None) -> Task:
    """Decide what is to be done.

    Args:
        plan: that is wanted.
        only: selectors of what is asked about; empty for everything.
        records: what the hosts have.
        anew: selectors of what has to restart whatever it does; None for nothing.

    Raises:
        RemoteError: a host did not give its records.
        UnrecordedError: something runs that no record names.
        StateError: a part was asked for, and the rest was started from another plan.
        UsageError: a selector means nothing.
    """
    refuse_unknown(plan, records)
    fates = replan(plan, records, only, anew=anew)
    if only:
        _refuse_a_mixture(plan, fates)
    starting = {*fates.of("start", "restart")}
    parts = _parts(plan, records, fates.going)
    return Task(
        plan=plan,
        fates=fates,
        stages=tuple(tuple(unit for unit in stage if unit in starting) for stage in plan.stages),
        running=plan.of_units(fates.of("keep")),
        launch_id=_launch_that_goes_on(records, parts),
        parts=parts,
    )


def refuse_unknown(plan: Plan, records: Records) -> None:
    """Go no further where it is not known what runs.

    Raises:
        RemoteError, UnrecordedError: as ``make_task``.
    """
    if records.refusals:
        message = f"{plural(len(records.refusals), 'host')} did not give their records"
        raise RemoteError(message, records.faults, hint="nothing was changed on any host")
    if records.orphans:
        message = f"processes of {plan.name} without a record run on {plural(len(records.orphans), 'host')}"
        raise UnrecordedError(message, records.orphans, hint="nothing was changed on any host")


def _refuse_a_mixture(plan: Plan, fates: Replan) -> None:
    other = [unit.unit for unit in fates.units if unit.fate == "leave" and unit.living and unit.changed]
    if other:
        raise StateError(
            f"{name_list(other)} {'was' if len(other) == 1 else 'were'} started from another plan than this profile "
            "gives now, and --only leaves it out",
            hint=f"`sgdeploy diff` with the whole profile of {plan.name} shows what differs; `sgdeploy up` without "
            "--only changes all of it",
        )


def _launch_that_goes_on(records: Records, parts: Mapping[str, Part]) -> str | None:
    for name, there in records.hosts.items():
        ending = parts[name].living if name in parts else ()
        if there.launch and any(process.id not in ending for process in there.living):
            return str(there.launch["id"])
    return None


def _parts(plan: Plan, records: Records, going: Collection[str]) -> dict[str, Part]:
    """Give what ends, host by host; on hosts where nothing else is on record all of it goes."""
    if not going:
        return {}
    found = {name: there for name, there in records.hosts.items() if there.processes}
    parts = {name: Part.of(there, there.plan or plan, going) for name, there in found.items()}
    return {name: part for name, part in parts.items() if part.ids}
