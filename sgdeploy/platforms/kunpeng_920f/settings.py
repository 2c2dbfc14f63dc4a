"""``platform_settings`` of a Kunpeng 920F profile: where things lie on the nodes, and how a node is cut up."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo, field_validator

from sgdeploy.platforms.kunpeng_920f import numbers
from sgdeploy.profile.parts import Section
from sgdeploy.profile.scalars import refusal


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise refusal("must be an absolute path", "it is a place on the nodes and begins with /")
    return path


Path = Annotated[str, AfterValidator(_absolute)]
Count = Annotated[int, Field(ge=0)]


def _module_or_none(value: Any) -> str | None:
    if value is False:
        return "<false>"
    return "<mapping>" if isinstance(value, dict | Sdma) else None


class Sdma(Section):
    """The kernel module of the on-chip DMA engine."""

    name: str = "sdma_dae"
    file: Path = "/opt/sdma/sdma_dae.ko"
    params: dict[str, str | int] = Field(default={"safe_mode": 0, "share_chns": 160})
    router_host: bool | None = Field(
        default=None,
        description="Whether a host without ranks loads it too. The vendor's scripts say true; default: where separate "
        "tokenizers run, since a router alone has no use for it.",
    )


ModuleOrNone = Annotated[
    Annotated[Sdma, Tag("<mapping>")] | Annotated[Literal[False], Tag("<false>")],
    Discriminator(
        _module_or_none, custom_error_type="shape", custom_error_message="must be a mapping, or false for no module"
    ),
]


class Mtp(Section):
    """Multi-token prediction."""

    draft_model_path: Path | None = Field(default=None, description="Default: the draft layer of the model itself.")


class Layout(Section):
    """How a node is cut up; the defaults are those of the 920F with 608 cores."""

    numa_nodes: Annotated[int, Field(ge=1)] = Field(numbers.NUMA_NODES, description="Compute NUMA nodes.")
    cores_per_node: Annotated[int, Field(ge=1)] = Field(numbers.CORES_PER_NODE, description="Cores of each.")
    core_offset: Count = Field(numbers.CORE_OFFSET, description="The rank's core inside its NUMA node.")
    hbm_offset: Annotated[int, Field(ge=1)] = Field(
        numbers.HBM_NODE_OFFSET, description="On-package memory of node r is node r + this."
    )
    hbm_pages: Count = Field(numbers.HBM_PAGES, description="Hugepages of 2 MiB on each on-package node.")

    @field_validator("core_offset")
    @classmethod
    def _inside_the_node(cls, offset: int, info: ValidationInfo) -> int:
        cores = info.data.get("cores_per_node")
        if cores is not None and offset >= cores:
            raise refusal(f"must be below cores_per_node ({cores})", "it counts cores inside one NUMA node, from 0")
        return offset


class KunpengSettings(Section):
    """All settings; every default is a place under /opt that stands for the site's own."""

    sglang_path: Path = Field(default="/opt/sglang", description="Source tree of the fork.")
    engine_dist: Path | None = Field(
        default=None,
        description="Folder of the packed copies (sglang_server_tp0 …). "
        "Default: scripts/cpu_kunpeng/pyinstall/dist below sglang_path.",
    )
    gemm_tiling_plan: Path | None = Field(
        default=None, description="GEMM tiling data. Default: scripts/cpu_kunpeng/configs below sglang_path."
    )
    conda_base: Path = Field(default="/opt/conda", description="Conda's base folder.")
    conda_env: str = Field(default="sgl-cpu", description="Name of the conda environment.")
    kupl_path: Path = Field(default="/opt/kupl", description="kupl, the threading library.")
    kutacc_path: Path = Field(default="/opt/kutacc", description="kutacc, the kernel library.")
    openblas_path: Path = Field(default="/opt/OpenBLAS", description="OpenBLAS.")
    hpckit_path: Path = Field(default="/opt/HPCKit", description="HPCKit, the compiler kit.")
    libibverbs_path: Path = Field(default="/usr/lib64/libibverbs", description="RDMA user library.")
    pthread_hook: Path = Field(
        default="/opt/lib/libpthread_hook.so", description="Library preloaded by separate tokenizers."
    )
    sdma: ModuleOrNone = Field(default=Sdma(), description="Kernel module to load; false for none.")
    nic: str = Field(default=numbers.NIC, description="Interface for hosts whose inventory entry names none.")
    mtp: Mtp | None = Field(default=None, description="Multi-token prediction; null for off.")
    layout: Layout = Layout()

    @property
    def scripts_path(self) -> str:
        """Folder of the fork's own launch scripts."""
        return f"{self.sglang_path}/scripts/cpu_kunpeng"
