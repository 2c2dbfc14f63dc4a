"""The part of a plan that somebody wants to look at: one host, what some selectors mean, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.plan.selector import matching

if TYPE_CHECKING:
    from sgdeploy.plan.model import Plan, PlanHost, Process


@dataclass(frozen=True)
class Part:
    """Which processes are meant; all of them where nothing is named.

    Attributes:
        host: inventory name.
        only: selectors; a process counts that any of them means.
    """

    host: str | None = None
    only: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether it is all of a plan."""
        return self.host is None and not self.only

    def processes(self, plan: Plan) -> tuple[Process, ...]:
        """Give its processes, in plan order; nobody where the plan has no such part."""
        return tuple(process for process in matching(plan, self.only) if self.host in {None, process.host})

    def hosts(self, plan: Plan) -> tuple[PlanHost, ...]:
        """Give its hosts, in plan order."""
        names = {process.host for process in self.processes(plan)}
        return tuple(host for host in plan.hosts if host.host in names)
