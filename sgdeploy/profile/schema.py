"""What an operator may write in a profile, section by section (pydantic; unknown keys are errors).

The source of each default is named beside it. ``${env:NAME}`` values arrive here as ``SecretRef``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from sgdeploy.profile.scalars import Duration, EnvName, Name, Port, Secret

FlagValue: TypeAlias = "bool | int | float | str | Secret | list[Any] | dict[str, Any] | None"
EnvSetting: TypeAlias = "str | int | float | bool | Secret | None"
Flags: TypeAlias = "dict[str, FlagValue]"
Env: TypeAlias = "dict[EnvName, EnvSetting]"


class Section(BaseModel):
    """Base of all sections."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Model(Section):
    """What is served."""

    path: Annotated[str, Field(min_length=1, description="Folder of the weights on every node.")]
    served_name: str | None = Field(
        default=None, description="Name that clients put into requests; default: the engine's own (the path)."
    )


class Parallel(Section):
    """Sizes of one instance. ``tp`` is the world size of one pipeline stage over all its nodes."""

    tp: Annotated[int, Field(ge=1)] = 1
    pp: Annotated[int, Field(ge=1)] = 1
    dp: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Data parallel groups; kunpeng-920f: nodes / pp, elsewhere 1."
    )
    ep: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Expert parallel width; kunpeng-920f: tp, elsewhere the engine's own default."
    )


class Rendezvous(Section):
    """Where the ranks of an instance meet (torch.distributed)."""

    port: Port | None = Field(default=None, description="Default: the platform's (kunpeng-920f native 5010).")


class Hosts(Section):
    """Hosts from a file: one host per line, ``#`` starts a comment."""

    file: str


HostSpec: TypeAlias = "str | list[str] | Hosts"
"""A group, a host name, either range notation, a list of those, or ``{file: hosts.txt}``."""


class Instance(Section):
    """One engine instance: its hosts, sizes, ports, flags and environment."""

    hosts: HostSpec
    leader: str | None = Field(default=None, description="Host that becomes node rank 0; default: the first.")
    parallel: Parallel = Parallel()
    rendezvous: Rendezvous = Rendezvous()
    port: Port | None = Field(default=None, description="HTTP port of rank 0 (rank r gets port + r); default 30000.")
    bootstrap_port: Port | None = Field(default=None, description="Default: the platform's (kunpeng-920f 9001).")
    flags: Flags = Field(default_factory=dict)
    env: Env = Field(default_factory=dict)


class Engine(Section):
    """The engine and its settings common to all instances."""

    version: str = Field(default="0.5.23", description="Names the flag catalogue: 0.5.23, or kunpeng for the fork.")
    launch: Literal["rank", "node"] = Field(
        default="node", description="One process per rank, or one per node (python -m sglang.launch_server)."
    )
    numa_copies: bool = Field(
        default=False, description="Each rank runs its own NUMA node's copy of the packed engine (kunpeng-920f)."
    )
    python: str = Field(default="python", description="Interpreter that runs the engine on the nodes.")
    executable: str | Literal["rehearsal"] | None = Field(
        default=None,
        description="Program instead of the engine; `rehearsal` is the simulated engine that ships with sgdeploy.",
    )
    activate: list[str] | None = Field(
        default=None,
        description="What a process sources first: conda:BASE:ENV, venv:DIR or setvars:FILE; default: the platform's.",
    )
    cwd: str | None = Field(default=None, description="Working folder of every process; default: the platform's.")
    flags: Flags = Field(default_factory=dict)
    env: Env = Field(default_factory=dict)


class Node(Section):
    """How nodes are used."""

    run_dir: str | None = Field(
        default=None, description="Default: /var/lib/sgdeploy for root, ~/.local/state/sgdeploy for others."
    )
    sysfs_root: str = Field(default="", description="Prefix put before sysfs paths at run time (rehearsals).")
    pin: bool = Field(default=True, description="Whether planned cores are applied with taskset.")


class HealthSettings(Section):
    """The two clocks of bring-up and the patience of ``down``."""

    timeout: Duration = Field(default=2700.0, description="Overall limit of bring-up, such as 45m.")
    stall: Duration = Field(default=600.0, description="Limit without any progress on any rank, such as 10m.")
    grace: Duration = Field(default=20.0, description="How long `down` waits for a drain before it insists.")


class ProfileBase(Section):
    """Keys that every topology has. ``extends`` and ``$schema`` are taken out before validation."""

    version: Literal[1]
    name: Name
    platform: str
    inventory: str | None = Field(default=None, description="Inventory file, relative to the file that names it.")
    platform_settings: dict[str, Any] = Field(
        default_factory=dict, description="Paths and numbers of the platform; its own file in docs/ lists them."
    )
    model: Model
    engine: Engine = Engine()
    node: Node = Node()
    health: HealthSettings = HealthSettings()


class NativeProfile(ProfileBase):
    """``topology: native``: one instance, or a mapping of named instances."""

    topology: Literal["native"]
    native: Instance | dict[Name, Instance]


Profile: TypeAlias = NativeProfile
"""Union over ``topology`` (a discriminated union as soon as there is more than one)."""
