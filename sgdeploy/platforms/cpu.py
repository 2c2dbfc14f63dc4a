"""Platform ``cpu``: any Linux node without accelerators, the plain engine on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from sgdeploy.platforms.base import EnvTexts, Launch, Platform, Remark, Shape
from sgdeploy.profile.parts import Section
from sgdeploy.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sgdeploy.profile.inventory import Host
    from sgdeploy.profile.schema import FlagValue

BIND = "SGLANG_CPU_OMP_THREADS_BIND"

SPLIT_FLAGS: Mapping[str, FlagValue] = MappingProxyType(
    {
        "disaggregation-transfer-backend": "mooncake_tcp",
        "disable-radix-cache": True,
        "disable-overlap-schedule": True,
    }
)
"""What prefill and decode need without an accelerator: transfer over TCP, and neither cached prefixes nor overlapped
steps, which use CUDA events (engine 0.5.23, seen on CPU)."""

DECODE_FLAGS: Mapping[str, FlagValue] = MappingProxyType({"disaggregation-decode-retraction-backup": "cpu_tensor"})
"""Decode's default wants pinned host memory, which needs CUDA (engine 0.5.23, seen on CPU)."""

SEND_QUEUE = "MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER"
QUEUED = "65535"
"""How many pieces a prefill may have under way to one decode; more is not allowed. Where the widths of the two differ,
each token of a chunk is a piece for itself, twice for each layer, and with the default of 1024 the first long prompt
fails (Mooncake 0.3.13: `TCP lane queue-full rejection`; decode says `Failed to get kvcache from prefill instance`)."""


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

    def flags(self, launch: Launch) -> dict[str, FlagValue]:
        """Give ``--device cpu`` and, with a split, what it needs without an accelerator."""
        if launch.role == "router":
            return {}
        split = SPLIT_FLAGS if launch.role in {"prefill", "decode"} else {}
        return {"device": "cpu", **split, **(DECODE_FLAGS if launch.role == "decode" else {})}

    def env(self, launch: Launch) -> EnvTexts:
        """Give the switch to the CPU engine, and thread settings where they were asked for."""
        if launch.role == "router":
            return super().env(launch)
        env = {"SGLANG_USE_CPU_ENGINE": "1", **super().env(launch)}
        if launch.role == "prefill":
            env[SEND_QUEUE] = QUEUED
        if launch.role == "tokenizer":
            return env
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
            hint = "set one of them in `engine.flags`, such as `max-total-tokens: 8192`"
            remarks.append(Remark("flags", "", message, hint, "warning", "memory-unbounded"))
        bind = env.get(BIND)
        if isinstance(bind, str) and bind != "all" and len(bind.split("|")) != shape.ranks_per_node:
            lists, ranks = plural(len(bind.split("|")), "core list"), plural(shape.ranks_per_node, "rank")
            message = f"{BIND} has {lists} for {ranks} on each node"
            hint = "give one core list per rank, separated by `|`"
            remarks.append(Remark("env", BIND, message, hint, "error", "threads-bind"))
        return remarks
