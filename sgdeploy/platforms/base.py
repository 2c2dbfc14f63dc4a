"""What a hardware kind contributes to a plan, and its plain form: one process per node, nothing pinned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sgdeploy.profile.inventory import Host
    from sgdeploy.profile.schema import FlagValue

HTTP_PORT = 30000
"""SGLang's own default HTTP port, of the engine and of the router."""

BOOTSTRAP_PORT = 8998
"""SGLang's own default port of the KV bootstrap server."""


TOKENIZER_APART = "SGLANG_ENABLE_TOKENIZER_SEPERATE"
SKIP_HTTP = "SGLANG_SKIP_HTTP"
HTTP_ONLY = "SGLANG_LAUNCH_HTTP_ONLY"
"""Variables of the Kunpeng fork: tokenizing happens apart; a process opens no HTTP; it does nothing else. The spelling
is the fork's; the last two work only with the first."""

FRONT_ROLES = frozenset({"tokenizer", "router"})
"""Roles that stand before the engine instances and hold no rank."""


@dataclass(frozen=True)
class Launch:
    """How the processes of a role are started, as a platform needs to know it.

    Attributes:
        role: native, prefill, decode, tokenizer or router.
        model_path: folder of the weights on the nodes; that of the first pipeline stage where each has its own.
        by_rank: whether every rank is a process of its own.
        numa_copies: whether each rank runs its NUMA node's copy of the packed engine.
        tokenizer_apart: whether HTTP and tokenizing happen in servers beside the router.
    """

    role: str
    model_path: str
    by_rank: bool
    numa_copies: bool
    tokenizer_apart: bool


@dataclass(frozen=True)
class Shape(Launch):
    """One engine instance as its platform needs to know it.

    Attributes:
        index: position among the instances of its role, from 0.
        nodes: number of nodes.
        tp: tensor parallel width of one pipeline stage.
        pp: pipeline stages.
        dp: data parallel groups.
        ep: expert parallel width, None for the engine's own default.
        leader_address: data address of node rank 0.
        rendezvous_port: where the ranks meet on the leader.
    """

    index: int
    nodes: int
    tp: int
    pp: int
    dp: int
    ep: int | None
    leader_address: str
    rendezvous_port: int

    @property
    def ranks(self) -> int:
        """All ranks of the instance: tensor parallel width times pipeline stages."""
        return self.tp * self.pp

    @property
    def ranks_per_node(self) -> int:
        """Ranks on each node; exact only when the sizes divide, which the plan checks."""
        return max(1, self.ranks // self.nodes)

    def stages_of(self, node: int, rank: int | None) -> range:
        """Give the pipeline stages of a process: ranks follow each other stage by stage, node by node.

        Args:
            node: its node rank.
            rank: its rank in the node; None where one process holds all ranks of the node.
        """
        first = node * self.ranks_per_node + (rank or 0)
        last = first if rank is not None else first + self.ranks_per_node - 1
        return range(first // self.tp, last // self.tp + 1)


@dataclass(frozen=True)
class PageWrite:
    """One write to a sysfs ``nr_hugepages`` file: its real path and the number of pages."""

    path: str
    pages: int


@dataclass(frozen=True)
class Module:
    """A kernel module that must be loaded with these parameters."""

    name: str
    file: str
    params: Mapping[str, str]


@dataclass(frozen=True)
class Placement:
    """Where one process runs: its cores and memory nodes (None: anywhere), pages to set first."""

    cores: tuple[int, ...] | None = None
    memory_nodes: tuple[int, ...] | None = None
    hugepages: tuple[PageWrite, ...] = ()


@dataclass(frozen=True)
class Remark:
    """What a platform finds wrong with one instance; the plan gives it its place.

    Attributes:
        subject: ``flags``, ``env``, ``parallel`` or ``settings``: which part of the profile it is about.
        key: the flag, variable, size or setting; "" for the whole part.
        message: one sentence with the numbers in it.
        hint: the next step.
        level: error or warning.
        code: short stable name.
    """

    subject: Literal["flags", "env", "parallel", "settings"]
    key: str
    message: str
    hint: str
    level: Literal["error", "warning"]
    code: str


EnvTexts: TypeAlias = "dict[str, str]"


@dataclass(frozen=True)
class Platform:
    """A hardware kind with its settings; this base is a plain node without any special need.

    Class attributes:
        kind: the word in a profile.
        rendezvous_ports: default rendezvous ports of each role's first instances; each further one gets +100.
        bootstrap_ports: default port of the KV bootstrap server per role; a role that is not in it passes no flag.
        router_cores: where the router runs by default, None for anywhere.
        packs_copies: whether each NUMA node may have its own packed copy of the engine.
        states_all_sizes: whether every size is passed even where it is the engine's default.
    """

    kind: ClassVar[str] = ""
    rendezvous_ports: ClassVar[Mapping[str, tuple[int, ...]]] = {
        "native": (25000,),
        "prefill": (25000,),
        "decode": (26000,),
    }
    bootstrap_ports: ClassVar[Mapping[str, int]] = {"prefill": BOOTSTRAP_PORT}
    router_cores: ClassVar[tuple[int, ...] | None] = None
    packs_copies: ClassVar[bool] = False
    states_all_sizes: ClassVar[bool] = False

    def ranks_that_fit(self) -> int | None:
        """Give how many ranks a node can hold; None where we know of no limit."""
        return None

    def default_dp(self, nodes: int, pp: int) -> int:
        """Give the data parallel groups of an instance that names none."""
        del nodes, pp
        return 1

    def default_ep(self, tp: int) -> int | None:
        """Give the expert parallel width of an instance that names none; None for the engine's default."""
        del tp
        return None

    def rendezvous_port(self, role: str, index: int) -> int:
        """Give the default rendezvous port of the ``index``-th instance of a role."""
        known = self.rendezvous_ports[role]
        return known[index] if index < len(known) else known[0] + 100 * index

    def flags(self, launch: Launch) -> dict[str, FlagValue]:
        """Give the platform's own flags of a role, the lowest layer; those of the router are the router's."""
        del launch
        return {}

    def env(self, launch: Launch) -> EnvTexts:
        """Give the platform's own environment of a role, the lowest layer."""
        if not launch.tokenizer_apart:
            return {}
        switch = {"prefill": SKIP_HTTP, "decode": SKIP_HTTP, "tokenizer": HTTP_ONLY}.get(launch.role)
        return {TOKENIZER_APART: "1", **({switch: "1"} if switch else {})}

    def size_env(self, shape: Shape) -> EnvTexts:
        """Give the variables that tell libraries how large an instance is and where it meets."""
        del shape
        return {}

    def env_prepend(self, launch: Launch) -> dict[str, tuple[str, ...]]:
        """Give library search paths, first entry first; they are put before what a node has."""
        del launch
        return {}

    def host_env(self, host: Host) -> EnvTexts:
        """Give the variables that differ from host to host."""
        return {"GLOO_SOCKET_IFNAME": host.nic} if host.nic is not None else {}

    def activate(self, launch: Launch) -> tuple[str, ...]:
        """Give what a process sources first: ``conda:BASE:ENV``, ``venv:DIR``, ``setvars:FILE``."""
        del launch
        return ()

    def executable(self, launch: Launch, rank: int | None, python: str) -> tuple[str, ...]:
        """Give the first words of an engine process's command; ``rank`` is its rank in the node or None."""
        del launch, rank
        return (python, "-m", "sglang.launch_server")

    def devices(self, host: Host, shape: Shape, rank: int | None) -> tuple[str, ...]:
        """Give the RDMA devices of a process of a split instance: all of its host's, or a rank's even share of them."""
        devices = host.ib_devices or ()
        if rank is None or not devices:
            return devices
        return (devices[rank * len(devices) // shape.ranks_per_node],)

    def place(self, shape: Shape, rank: int | None) -> Placement:
        """Say where a process runs; ``rank`` is its rank in the node or None for one process per node."""
        del shape, rank
        return Placement()

    def modules(self, roles: Collection[str]) -> tuple[Module, ...]:
        """Give the kernel modules that a host with processes of these roles needs."""
        del roles
        return ()

    def derived_ports(self, shape: Shape, *, dp_attention: bool) -> int:
        """Give how many ports right above the rendezvous port the engine takes for itself on the leader.

        With attention data parallelism the engine puts its tokenizer, detokenizer, RPC and metrics channels and
        one input per data parallel group there (seen as ``port_base`` in its own messages).
        """
        return 5 + shape.dp if dp_attention else 0

    def check(self, shape: Shape, flags: Mapping[str, Any], env: Mapping[str, Any]) -> list[Remark]:
        """Look at one instance with its merged flags and environment."""
        del shape, flags, env
        return []
