"""One host under examination: its part of the plan beside its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from sgdeploy.facts.model import Finding, HostFacts
from sgdeploy.plan.model import Hugepages, KernelModule, Plan, PlanHost, Process

SIMULATED_ENGINE = "engine.py"
"""File name of the simulated engine in the run folder; who runs it needs neither model nor fast network."""


def simulated(process: Process) -> bool:
    """Tell whether a process runs the simulated engine instead of the real one."""
    return any(PurePosixPath(process.argv[index]).name == SIMULATED_ENGINE for index in process.in_run_dir)


def sysfs(host: PlanHost, path: str) -> str:
    """Give the path that is really read and written for a sysfs path of the plan."""
    return host.sysfs_root.rstrip("/") + path if host.sysfs_root else path


def target_host(target: str) -> str:
    """Give the host of ``host:port`` or ``[address]:port``."""
    return target.rpartition(":")[0].strip("[]")


def kernel_name(module: str) -> str:
    """Give a module's name as the kernel spells it."""
    return module.replace("-", "_")


def hugepage_writes(host: PlanHost, processes: tuple[Process, ...]) -> dict[str, int]:
    """Give sysfs path (as in the plan) → the largest value that is ever written to it."""
    most: dict[str, int] = {}
    writes: tuple[Hugepages, ...] = host.hugepages + tuple(w for process in processes for w in process.hugepages)
    for write in writes:
        most[write.path] = max(write.value, most.get(write.path, 0))
    return most


@dataclass(frozen=True)
class Subject:
    """What the checks of one host look at.

    Attributes:
        plan: the whole plan.
        host: the host's part.
        processes: its processes, plan order.
        facts: what it is like.
        taken: rows ``{address, port, pid, command}`` of planned ports that somebody listens on.
    """

    plan: Plan
    host: PlanHost
    processes: tuple[Process, ...]
    facts: HostFacts
    taken: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def real(self) -> tuple[Process, ...]:
        """Its processes that run the real engine."""
        return tuple(process for process in self.processes if not simulated(process))

    @property
    def writes(self) -> dict[str, int]:
        """Hugepage writes, see ``hugepage_writes``."""
        return hugepage_writes(self.host, self.processes)

    @property
    def to_load(self) -> tuple[KernelModule, ...]:
        """Kernel modules of the plan that are not loaded yet."""
        return tuple(module for module in self.host.modules if kernel_name(module.name) not in self.facts.modules)

    @property
    def who(self) -> str:
        """Our user there, in words."""
        return f"user {self.facts.user}" if self.facts.user else "our user"

    def error(self, code: str, message: str, hint: str) -> Finding:
        """Make a finding that stops the command."""
        return Finding(code, "error", self.host.host, message, hint)

    def warning(self, code: str, message: str, hint: str) -> Finding:
        """Make a finding that is told only."""
        return Finding(code, "warning", self.host.host, message, hint)
