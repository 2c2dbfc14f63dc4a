"""The part of a plan that somebody wants to look at: one host, one unit, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sgdeploy.plan.model import Plan, PlanHost, Process


@dataclass(frozen=True)
class Part:
    """Which processes are meant; all of them where nothing is named.

    Attributes:
        host: inventory name.
        unit: selector of an instance: ``native``, ``prefill/short``, ``router``.
    """

    host: str | None = None
    unit: str | None = None

    @property
    def whole(self) -> bool:
        """Whether it is all of a plan."""
        return self.host is None and self.unit is None

    def processes(self, plan: Plan) -> tuple[Process, ...]:
        """Give its processes, in plan order."""
        return tuple(
            process
            for process in plan.processes
            if self.host in {None, process.host} and self.unit in {None, process.unit}
        )

    def hosts(self, plan: Plan) -> tuple[PlanHost, ...]:
        """Give its hosts, in plan order."""
        names = {process.host for process in self.processes(plan)}
        return tuple(host for host in plan.hosts if host.host in names)
