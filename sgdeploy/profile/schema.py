"""What an operator may write in a profile, section by section (pydantic; unknown keys are errors).

The source of each default is named beside it. ``${env:NAME}`` values of flags and env arrive here as ``Secret``.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, Discriminator, Field, PlainValidator, Tag, WithJsonSchema

from sgdeploy.profile.inventory_schema import InventorySection
from sgdeploy.profile.parts import HostSpec, Section, by_shape
from sgdeploy.profile.scalars import (
    Cores,
    Duration,
    EnvName,
    Name,
    Port,
    Secret,
    env_setting,
    flag_value,
    version_one,
)

FlagValue = Annotated[
    bool | int | float | str | Secret | list[Any] | dict[str, Any] | None,
    PlainValidator(flag_value),
    WithJsonSchema({"description": "Scalar, list or mapping (passed as JSON); null removes; ${env:NAME} is a secret."}),
]
EnvSetting = Annotated[
    str | int | float | bool | Secret | None,
    PlainValidator(env_setting),
    WithJsonSchema(
        {
            "type": ["string", "number", "boolean", "null"],
            "description": "null removes the platform's value; ${env:NAME} is a secret.",
        }
    ),
]
Flags: TypeAlias = dict[str, FlagValue]
Env: TypeAlias = dict[EnvName, EnvSetting]

_FLAGS = "Engine flags by their own long names, without the leading dashes; null removes a lower layer's flag."
_ENV = "Environment variables of every process; null removes a lower layer's variable."


class Model(Section):
    """What is served."""

    path: Annotated[
        str,
        Field(min_length=1, description="Folder of the weights on every node; {stage} is the pipeline stage, from 0."),
    ]
    served_name: str | None = Field(
        default=None, description="Name that clients put into requests; default: the engine's own (the path)."
    )
    layers: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Number of its layers; a pipeline layer partition is held against it."
    )


class Parallel(Section):
    """Sizes of one instance. ``tp`` is the world size of one pipeline stage over all its nodes."""

    tp: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Tensor parallel width of one pipeline stage, over all its nodes."
    )
    pp: Annotated[int, Field(ge=1)] = Field(default=1, description="Pipeline stages.")
    dp: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Data parallel groups; kunpeng-920f: nodes / pp, elsewhere 1."
    )
    ep: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Expert parallel width; kunpeng-920f: tp, elsewhere the engine's own default."
    )


class Rendezvous(Section):
    """Where the ranks of an instance meet (torch.distributed)."""

    port: Port | None = Field(
        default=None, description="Default: the platform's (kunpeng-920f: native 5010, prefill 5000, decode 5010)."
    )


class Restart(Section):
    """What `sgdeploy watch` does when a rank of it fails: the whole instance is started again."""

    policy: Literal["on-failure", "never"] = Field(
        default="on-failure", description="Whether a failure restarts it; never is as if there were no `restart:`."
    )
    max: Annotated[int, Field(ge=1)] = Field(
        default=3, description="Restarts in a row; ten minutes of being ready begin the count anew."
    )
    backoff: Duration = Field(
        default=10.0, description="Pause before the first restart, such as 10s; it doubles with each further one."
    )


class Instance(Section):
    """One engine instance: its hosts, sizes, ports, flags and environment."""

    hosts: Annotated[HostSpec, Field(description="A group, a host, a range, a list of those, or {file: PATH}.")]
    leader: str | None = Field(default=None, description="Host that becomes node rank 0; default: the first.")
    model_path: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Folder of its weights, such as a split for its sizes; default: `model.path`."
    )
    parallel: Parallel = Parallel()
    rendezvous: Rendezvous = Rendezvous()
    port: Port | None = Field(default=None, description="HTTP port of rank 0 (rank r gets port + r); default 30000.")
    bootstrap_port: Port | None = Field(
        default=None,
        description="Where decode asks a prefill for its KV cache; default: the platform's (kunpeng-920f 9001).",
    )
    cores: Cores | None = Field(
        default=None, description="Cores of each process with `launch: node`, such as 0-31; default: the platform's."
    )
    memory_nodes: Cores | None = Field(
        default=None, description="NUMA nodes that hold the memory of each process with `launch: node`; default: any."
    )
    flags: Flags = Field(default_factory=dict, description=_FLAGS)
    env: Env = Field(default_factory=dict, description=_ENV)
    restart: Restart | None = Field(
        default=None, description="Restart it as a whole when a rank of it fails, while `sgdeploy watch` runs."
    )


def _one_or_many(value: Any) -> str | None:
    """Tell one instance from a mapping of named ones, whose values are mappings and whose keys no instance has."""
    if isinstance(value, BaseModel):
        return "<one>"
    if not isinstance(value, dict):
        return None
    named = value and all(isinstance(item, (dict, BaseModel)) for item in value.values())
    return "<many>" if named and not value.keys() & Instance.model_fields.keys() else "<one>"


Instances = Annotated[
    Annotated[Instance, Tag("<one>")] | Annotated[dict[Name, Instance], Tag("<many>")],
    Discriminator(
        _one_or_many,
        custom_error_type="shape",
        custom_error_message="must be an instance or a mapping of named instances",
    ),
]
"""One instance, or several by name."""


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
    executable: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Program instead of the engine; `rehearsal` is the simulated engine that ships with sgdeploy.",
    )
    activate: list[str] | None = Field(
        default=None,
        description="What a process sources first: conda:BASE:ENV, venv:DIR or setvars:FILE; default: the platform's.",
    )
    cwd: str | None = Field(default=None, description="Working folder of every process; default: the run folder.")
    flags: Flags = Field(default_factory=dict, description=_FLAGS)
    env: Env = Field(default_factory=dict, description=_ENV)


class Node(Section):
    """How nodes are used."""

    run_dir: str | None = Field(
        default=None,
        description="Where a host keeps records and logs; default: /var/lib/sgdeploy over SSH as root, which the "
        "inventory says by `user: root` or `sudo: true`; else ~/.local/state/sgdeploy, also as root on this machine.",
    )
    sysfs_root: str = Field(default="", description="Prefix put before sysfs paths at run time (rehearsals).")
    pin: bool = Field(default=True, description="Whether planned cores are applied with taskset.")
    load_modules: bool = Field(default=True, description="Whether the platform's kernel modules are loaded.")


class HealthSettings(Section):
    """The two clocks of bring-up and the patience of ``down``."""

    timeout: Duration = Field(default=2700.0, description="Overall limit of bring-up, such as 45m.")
    stall: Duration = Field(default=600.0, description="Limit without any progress on any rank, such as 10m.")
    grace: Duration = Field(default=20.0, description="How long `down` waits for a drain before it insists.")


InventoryRef = Annotated[
    Annotated[str, Field(min_length=1), Tag("<text>")] | Annotated[InventorySection, Tag("<mapping>")],
    by_shape("must be the path of an inventory file or a mapping"),
]


class ProfileBase(Section):
    """Keys that every topology has. ``extends`` and ``$schema`` are taken out before validation."""

    reader_keys: ClassVar[frozenset[str]] = frozenset({"extends", "$schema"})
    version: Annotated[Literal[1], version_one("profile"), Field(description="Of this format: 1.")]
    name: Annotated[
        Name, Field(description="Name of the deployment, by which all other commands know it once it was started.")
    ]
    platform: Annotated[str, Field(description="Hardware of the nodes, such as kunpeng-920f or cpu.")]
    inventory: InventoryRef | None = Field(
        default=None, description="Inventory file, relative to the file that names it; or the inventory itself."
    )
    platform_settings: dict[str, Any] = Field(
        default_factory=dict, description="Paths and numbers of the platform; its own file in docs/ lists them."
    )
    model: Model
    engine: Engine = Engine()
    node: Node = Node()
    health: HealthSettings = HealthSettings()
