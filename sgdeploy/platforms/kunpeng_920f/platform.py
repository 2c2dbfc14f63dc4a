"""The rules of the platform: which core, which pages, which program, which variables a rank gets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from sgdeploy.platforms.base import (
    FRONT_ROLES,
    TOKENIZER_APART,
    EnvTexts,
    Launch,
    Module,
    PageWrite,
    Placement,
    Platform,
    Remark,
    Shape,
)
from sgdeploy.platforms.kunpeng_920f import numbers
from sgdeploy.platforms.kunpeng_920f.settings import KunpengSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sgdeploy.profile.inventory import Host
    from sgdeploy.profile.schema import FlagValue


def nr_hugepages(node: int) -> str:
    """Give the sysfs file that holds the number of 2 MiB pages of a NUMA node."""
    return f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"


@dataclass(frozen=True)
class Kunpeng920F(Platform):
    """Kunpeng 920F nodes with their settings."""

    kind: ClassVar[str] = "kunpeng-920f"
    rendezvous_ports: ClassVar[Mapping[str, tuple[int, ...]]] = numbers.RENDEZVOUS_PORTS
    bootstrap_ports: ClassVar[Mapping[str, int]] = numbers.BOOTSTRAP_PORTS
    router_cores: ClassVar[tuple[int, ...] | None] = numbers.ROUTER_CORES
    packs_copies: ClassVar[bool] = True
    states_all_sizes: ClassVar[bool] = True
    settings: KunpengSettings = field(default_factory=KunpengSettings)

    def ranks_that_fit(self) -> int | None:
        """One rank per compute NUMA node."""
        return self.settings.layout.numa_nodes

    def default_dp(self, nodes: int, pp: int) -> int:
        """One data parallel group per node of a pipeline stage."""
        return max(1, nodes // pp)

    def default_ep(self, tp: int) -> int | None:
        """Experts are spread over all ranks of a stage."""
        return tp

    def flags(self, launch: Launch) -> dict[str, FlagValue]:
        """Give the flags of every rank, then the role's own, then those of multi-token prediction."""
        if launch.role == "router":
            return {"model-path": launch.model_path, **numbers.ROUTER_FLAGS}
        if launch.role == "tokenizer":
            return dict(numbers.TOKENIZER_FLAGS)
        flags = {**numbers.FLAGS, **numbers.ROLE_FLAGS[launch.role]}
        if self.settings.mtp is not None:
            flags |= numbers.MTP_FLAGS
            if self.settings.mtp.draft_model_path is not None:
                flags["speculative-draft-model-path"] = self.settings.mtp.draft_model_path
        return flags

    def env(self, launch: Launch) -> EnvTexts:
        """Give the variables that are equal on all processes of a role."""
        at = self.settings
        own = {"MODEL_PATH": launch.model_path} if launch.role in {"prefill", "decode"} else {}
        if launch.role == "tokenizer":
            own = {"LD_PRELOAD": at.pthread_hook}
        return {
            **numbers.ENV,
            **numbers.ROLE_ENV[launch.role],
            **own,
            "SGLANG_PATH": at.sglang_path,
            "GEMM_TILING_PLAN_FILE": at.gemm_tiling_plan or f"{at.scripts_path}/configs",
            "HPCKIT_PATH": at.hpckit_path,
            "KUPL_PATH": at.kupl_path,
            "KUTACC_PATH": at.kutacc_path,
            "KUTACC_INCLUDE": f"{at.kutacc_path}/include",
            "KUTACC_LIB": f"{at.kutacc_path}/lib",
            "OpenBLAS_PATH": at.openblas_path,
            "LIBPTHREAD_HOOK_PATH": at.pthread_hook,
            "SGLANG_ENABLE_BINARY_LAUNCH": _switch(on=launch.by_rank),
            "SGLANG_ENABLE_NUMA_DUPLICATION": _switch(on=launch.numa_copies),
            TOKENIZER_APART: _switch(on=launch.tokenizer_apart),
            "SGLANG_ENABLE_MTP": _switch(on=at.mtp is not None),
            # The size of a full node, not the number of ranks in use.
            "MV2_COMM_WORLD_LOCAL_SIZE": str(at.layout.numa_nodes),
        }

    def size_env(self, shape: Shape) -> EnvTexts:
        """Give the sizes, which libraries read too; WORLD_SIZE counts nodes here, whatever torchrun means by it."""
        return {
            "WORLD_SIZE": str(shape.nodes),
            "MASTER_ADDR": shape.leader_address,
            "MASTER_PORT": str(shape.rendezvous_port),
            "TP_SIZE": str(shape.tp),
            "PP_SIZE": str(shape.pp),
            "DP_SIZE": str(shape.dp),
            "EP_SIZE": str(shape.tp if shape.ep is None else shape.ep),
        }

    def env_prepend(self, launch: Launch) -> dict[str, tuple[str, ...]]:
        """Give kupl to compilers; give all libraries to what is not packed (packed copies carry their own)."""
        at = self.settings
        paths: dict[str, tuple[str, ...]] = {
            "CPATH": (f"{at.kupl_path}/include",),
            "INCLUDE": (f"{at.kupl_path}/include",),
            "LIBRARY_PATH": (f"{at.kupl_path}/lib",),
        }
        if not _packed(launch):
            roots = (at.kutacc_path, at.kupl_path)
            libraries = tuple(f"{root}/lib" for root in roots)
            paths["LD_LIBRARY_PATH"] = (*libraries, at.libibverbs_path, f"{at.openblas_path}/lib")
        return paths

    def host_env(self, host: Host) -> EnvTexts:
        """Name the interface that gloo uses."""
        return {"GLOO_SOCKET_IFNAME": host.nic or self.settings.nic}

    def activate(self, launch: Launch) -> tuple[str, ...]:
        """Activate conda, and the compiler kit where the program is not packed."""
        conda = f"conda:{self.settings.conda_base}:{self.settings.conda_env}"
        return (conda,) if _packed(launch) else (conda, f"setvars:{self.settings.hpckit_path}/setvars.sh")

    def executable(self, launch: Launch, rank: int | None, python: str) -> tuple[str, ...]:
        """Give a rank the packed copy of its own NUMA node, so that each node caches its own pages."""
        if rank is None or not launch.numa_copies:
            return super().executable(launch, rank, python)
        dist = self.settings.engine_dist or f"{self.settings.scripts_path}/pyinstall/dist"
        return (f"{dist}/sglang_server_tp{rank}/sglang_server",)

    def devices(self, host: Host, shape: Shape, rank: int | None) -> tuple[str, ...]:
        """Take the vendor's device names where the inventory has none."""
        return super().devices(host if host.ib_devices else replace(host, ib_devices=numbers.IB_DEVICES), shape, rank)

    def place(self, shape: Shape, rank: int | None) -> Placement:
        """Put rank r on one core of NUMA node r: no pages in its normal memory, then all in its on-package one."""
        del shape
        if rank is None:
            return Placement()
        cut = self.settings.layout
        pages = (PageWrite(nr_hugepages(rank), 0), PageWrite(nr_hugepages(rank + cut.hbm_offset), cut.hbm_pages))
        return Placement(cores=(rank * cut.cores_per_node + cut.core_offset,), hugepages=pages)

    def modules(self, roles: Collection[str]) -> tuple[Module, ...]:
        """Give the DMA engine's module to hosts that run the engine, or to those that were said to load it."""
        sdma = self.settings.sdma
        if sdma is False:
            return ()
        in_front = "tokenizer" in roles if sdma.router_host is None else sdma.router_host
        if FRONT_ROLES.issuperset(roles) and not in_front:
            return ()
        return (Module(sdma.name, sdma.file, {key: str(value) for key, value in sdma.params.items()}),)

    def derived_ports(self, shape: Shape, *, dp_attention: bool) -> int:
        """Reserve what the scripts say their processes take, or more where the engine's rule asks for more."""
        return max(numbers.DERIVED_PORTS, super().derived_ports(shape, dp_attention=dp_attention))

    def check(self, shape: Shape, flags: Mapping[str, Any], env: Mapping[str, Any]) -> list[Remark]:
        """Hold the pages of an on-package node against the pool that must fit into them."""
        del flags
        pool = env.get(numbers.HBW_POOL)
        if not shape.by_rank or not isinstance(pool, str):
            return []
        if not pool.isdigit():
            message = f'{numbers.HBW_POOL} must be a whole number of megabytes, got "{pool}"'
            return [Remark("env", numbers.HBW_POOL, message, "give a number such as 4000", "error", "pool-size")]
        pages = self.settings.layout.hbm_pages
        have, need = pages * numbers.PAGE_MIB, int(pool)
        if have >= need:
            return []
        message = (
            f"{pages} hugepages of {numbers.PAGE_MIB} MiB hold {have} MiB on each on-package memory node, "
            f"less than {numbers.HBW_POOL} = {need}"
        )
        fit = -(-need // numbers.PAGE_MIB)
        hint = f"set `platform_settings.layout.hbm_pages: {fit}` or more, or {numbers.HBW_POOL} to at most {have}"
        return [Remark("env", numbers.HBW_POOL, message, hint, "error", "hugepages-small")]


def _packed(launch: Launch) -> bool:
    """Tell whether a process runs a packed copy, with all libraries in it."""
    return launch.numa_copies and launch.role not in FRONT_ROLES


def _switch(*, on: bool) -> str:
    return "1" if on else "0"
