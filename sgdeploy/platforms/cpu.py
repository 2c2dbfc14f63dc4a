"""Platform ``cpu``: any Linux node without accelerators, the plain engine on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from sgdeploy.platforms.base import EnvTexts, Platform, Remark, Shape
from sgdeploy.profile.parts import Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sgdeploy.profile.inventory import Host
    from sgdeploy.profile.schema import FlagValue

BIND = "SGLANG_CPU_OMP_THREADS_BIND"


class CpuSettings(Section):
    """Settings of plain CPU nodes."""

    threads_bind: str | None = Field(
        default=None,
        description="Core lists for the engine's threads, one per rank of a node: `0-15|16-31`. Default: the engine "
        "decides by NUMA nodes, and refuses more ranks than it has nodes.",
    )
    omp_threads: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="OpenMP threads of each rank. Default: the engine's own."
    )


@dataclass(frozen=True)
class Cpu(Platform):
    """Plain CPU nodes with their settings."""

    kind: ClassVar[str] = "cpu"
    settings: CpuSettings = field(default_factory=CpuSettings)

    def flags(self, shape: Shape) -> dict[str, FlagValue]:
        """Give ``--device cpu``."""
        del shape
        return {"device": "cpu"}

    def env(self, shape: Shape) -> EnvTexts:
        """Give the switch to the CPU engine, and thread settings where they were asked for."""
        del shape
        env = {"SGLANG_USE_CPU_ENGINE": "1"}
        if self.settings.threads_bind is not None:
            env[BIND] = self.settings.threads_bind
        if self.settings.omp_threads is not None:
            env["OMP_NUM_THREADS"] = str(self.settings.omp_threads)
        return env

    def host_env(self, host: Host) -> EnvTexts:
        """Add each node's own address: without it the engine may bind another one of the machine."""
        return {"SGLANG_HOST_IP": host.address, **super().host_env(host)}

    def check(self, shape: Shape, flags: Mapping[str, Any], env: Mapping[str, Any]) -> list[Remark]:
        """Ask for a bound on memory, and for one core list per rank."""
        remarks = []
        if flags.get("mem-fraction-static") is None and flags.get("max-total-tokens") is None:
            message = "neither mem-fraction-static nor max-total-tokens bounds the KV cache on a CPU node"
            hint = "set one of them, such as `max-total-tokens: 8192`"
            remarks.append(Remark("flags", "", message, hint, "warning", "memory-unbounded"))
        bind = env.get(BIND)
        if isinstance(bind, str) and bind != "all" and len(bind.split("|")) != shape.ranks_per_node:
            message = f"{BIND} has {len(bind.split('|'))} core lists for {shape.ranks_per_node} ranks on each node"
            hint = "give one core list per rank, separated by `|`"
            remarks.append(Remark("env", BIND, message, hint, "error", "threads-bind"))
        return remarks
