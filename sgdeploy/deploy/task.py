"""What one `up` has to start, given what is on record: pure, so that every refusal is a test."""

from __future__ import annotations

from dataclasses import dataclass

from sgdeploy.deploy.records import RecordedProcess, Records
from sgdeploy.errors import RemoteError, StateError, UnrecordedError
from sgdeploy.plan.model import Plan, PlanHost, Process
from sgdeploy.plan.selector import selected_units
from sgdeploy.words import plural

SHOWN = 4
"""Host names shown in one message before it says only how many there are."""


@dataclass(frozen=True)
class Task:
    """What is to be started.

    Attributes:
        plan: the whole plan.
        stages: units to start, stage by stage.
        running: processes of other units that run already.
        launch_id: of what runs already, so that the records stay one launch; None where nothing runs.
    """

    plan: Plan
    stages: tuple[tuple[str, ...], ...]
    running: tuple[Process, ...]
    launch_id: str | None

    @property
    def units(self) -> frozenset[str]:
        """All units that are to be started."""
        return frozenset(unit for stage in self.stages for unit in stage)

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


def make_task(plan: Plan, only: tuple[str, ...], records: Records) -> Task:
    """Decide what is to be started.

    Raises:
        RemoteError: a host did not give its records.
        UnrecordedError: something runs that no record names.
        StateError: something that was asked for runs already, or what runs was started from another plan.
        UsageError: a selector means nothing.
    """
    if records.refusals:
        message = f"{plural(len(records.refusals), 'host')} did not give their records"
        raise RemoteError(message, records.faults, hint="nothing was changed on any host")
    if records.orphans:
        message = f"processes of {plan.name} without a record run on {plural(len(records.orphans), 'host')}"
        raise UnrecordedError(message, records.orphans, hint="nothing was changed on any host")
    units = set(selected_units(plan, only))
    living = list(records.living)
    unit_of = {process.id: process.unit for process in plan.processes}
    in_the_way = [process for process in living if unit_of.get(process.id) in units or process.id not in unit_of]
    if in_the_way or (living and not only):
        raise _already(plan, in_the_way or living, only)
    other = [recorded for recorded in records.plans if recorded.digest != plan.digest]
    if living and other:
        raise StateError(
            f"what runs was started from another plan ({other[0].digest[:19]}…) than this profile gives now",
            hint=f"`sgdeploy down {plan.name}` first, then `sgdeploy up` with the whole profile",
        )
    alive = {process.id for process in living}
    hosts = {process.host for process in living}
    ids = [str(found.launch["id"]) for name, found in records.hosts.items() if name in hosts and found.launch]
    return Task(
        plan=plan,
        stages=tuple(s for stage in plan.stages if (s := tuple(unit for unit in stage if unit in units))),
        running=tuple(process for process in plan.processes if process.id in alive),
        launch_id=ids[0] if ids else None,
    )


def _already(plan: Plan, living: list[RecordedProcess], only: tuple[str, ...]) -> StateError:
    hosts = sorted({process.host for process in living})
    shown = ", ".join(hosts[:SHOWN]) + (" …" if len(hosts) > SHOWN else "")
    words = "".join(f" --only {selector}" for selector in only)
    return StateError(
        f"{plan.name}: {len(living)} of its processes already run on {plural(len(hosts), 'host')} ({shown})",
        hint=f"look at them with `sgdeploy status {plan.name}`, or stop them first with "
        f"`sgdeploy down {plan.name}{words}`",
    )
