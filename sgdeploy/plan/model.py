"""The plan: every process of a deployment as data, computed once, frozen, printed as JSON and run as it is.

The JSON form is a public contract (docs/plan-contract.md). Fields may be added; names and meanings stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from sgdeploy.plan.endpoint import endpoint

if TYPE_CHECKING:
    from typing_extensions import Self

Role: TypeAlias = Literal["native", "prefill", "decode", "tokenizer", "router"]
Topology: TypeAlias = Literal["native", "pd", "two-bucket-prefill"]


class Frozen(BaseModel):
    """Base of all plan models: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SecretRef(Frozen):
    """A value that the plan names but never holds: ``{"secret": "env:NAME"}``."""

    secret: Annotated[str, Field(pattern=r"^env:[A-Za-z_][A-Za-z0-9_]*$")]

    @property
    def variable(self) -> str:
        """Name of the controller's environment variable that holds the value."""
        return self.secret.removeprefix("env:")


EnvValue: TypeAlias = "str | SecretRef"


class Hugepages(Frozen):
    """One write to a sysfs ``nr_hugepages`` file: its real path and the number of pages."""

    path: str
    value: Annotated[int, Field(ge=0)]


class KernelModule(Frozen):
    """A kernel module that must be loaded with these parameters before the first process starts."""

    name: str
    file: str
    params: Mapping[str, str]


class PlannedFile(Frozen):
    """A file that travels with the plan and is put on the host before the start.

    Attributes:
        path: relative to the host's run folder.
        source: name of a file that ships with sgdeploy, relative to the package, as ``parcels.shipped`` gives it
            (``rehearse/engine.py``).
        mode: permission bits in octal, ``0755``.
    """

    path: str
    source: str
    mode: Annotated[str, Field(pattern=r"^0[0-7]{3}$")] = "0644"


class SecretConfig(Frozen):
    """Engine flags with secret values: written at start into a file of mode 0600 and passed by ``--config``.

    Attributes:
        path: relative to the host's run folder; the argv word after ``--config`` is listed in ``in_run_dir``.
        values: long flag name without dashes in front → secret.
    """

    path: str
    values: Mapping[str, SecretRef]


class Health(Frozen):
    """How the health of a process is judged.

    Attributes:
        alive: whether the process must live.
        milestones: name of a set in ``sgdeploy/engine/data/milestones.yaml``: ``engine`` for one that serves
            (load phase and the ready line), ``engine-follower`` for one that only loads, ``router``.
        http: path asked on the node itself (``/health``), or null where nothing is asked.
    """

    alive: bool = True
    milestones: str | None = "engine"
    http: str | None = None


class PlanHost(Frozen):
    """A host of the plan, and what is prepared there before any process starts.

    Attributes:
        host: inventory name.
        address: data address, as it appears in flags.
        ssh: name or address to connect to (an alias of ``~/.ssh/config`` is fine).
        connection: ``ssh``, or ``local`` for a host that is this machine (no sshd needed).
        user: ssh user, null for what the ssh configuration says.
        port: ssh port, null for what the ssh configuration says.
        sudo: whether that user becomes root there, by ``sudo -n``.
        known_hosts: ``strict`` checks host keys; ``off`` does not (said loudly).
        run_dir: ``<run_dir>/<deployment>/<host>``; "~" is resolved on the host.
        sysfs_root: prefix put before sysfs paths at run time ("" in production).
        modules: kernel modules, in order.
        hugepages: values the host ends up with before the first start, in order of writing.
        files: files that are put on the host.
    """

    host: str
    address: str
    ssh: str
    connection: Literal["ssh", "local"] = "ssh"
    user: str | None = None
    port: int | None = None
    sudo: bool = False
    known_hosts: Literal["strict", "off"] = "strict"
    run_dir: str
    sysfs_root: str = ""
    modules: tuple[KernelModule, ...] = ()
    hugepages: tuple[Hugepages, ...] = ()
    files: tuple[PlannedFile, ...] = ()

    @property
    def place(self) -> tuple[object, ...]:
        """Where its records are, and the way there: whoever looks at the same place finds the same records."""
        return (self.host, self.connection, self.ssh, self.user, self.port, self.run_dir)


class Process(Frozen):
    """One process of the deployment; see docs/plan-contract.md for each field.

    ``in_run_dir`` lists the indices of argv words that are paths relative to the host's run folder (which may begin
    with "~" and is known only there); the rendered script puts the folder before exactly those words.
    ``cwd`` null means the run folder.
    """

    id: str
    role: Role
    instance: str | None = None
    host: str
    address: str
    node_rank: int | None = None
    rank_in_node: int | None = None
    leader: bool = False
    argv: tuple[str, ...]
    in_run_dir: tuple[int, ...] = ()
    env: Mapping[str, EnvValue] = Field(default_factory=dict)
    env_prepend: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    activate: tuple[str, ...] = ()
    cwd: str | None = None
    cores: tuple[int, ...] | None = None
    memory_nodes: tuple[int, ...] | None = None
    hugepages: tuple[Hugepages, ...] = ()
    devices: tuple[str, ...] = ()
    listens: Mapping[str, int | None] = Field(default_factory=dict)
    connects: Mapping[str, str] = Field(default_factory=dict)
    log: str
    wait_for: tuple[str, ...] = ()
    health: Health = Health()
    secret_config: SecretConfig | None = None

    @property
    def unit(self) -> str:
        """Selector of its instance: ``native``, ``prefill/short``, ``router``; the smallest unit that restarts."""
        return self.role if self.instance is None else f"{self.role}/{self.instance}"

    @property
    def label(self) -> str:
        """Its short name below the deployment: ``native/n01/r07``."""
        return self.id.partition("/")[2]

    @property
    def key(self) -> str:
        """Its file name below the run folder, without an ending: ``native-n01-r07``."""
        return self.label.replace("/", "-")


class Worker(Frozen):
    """A server that the router hands requests to.

    Attributes:
        url: as the router knows it.
        role: what it does.
        unit: selector of the process that serves there: its instance, or a tokenizer.
        bootstrap: port at which decode asks it for KV cache, null for decode.
    """

    url: str
    role: Literal["prefill", "decode"]
    unit: str
    bootstrap: int | None = None


class FrontDoor(Frozen):
    """Where a client sends requests, and the completion that proves that the deployment serves.

    Attributes:
        host: inventory name of the host on which the request is sent (from the node itself).
        address: data address.
        port: HTTP port.
        model: name to put into the request.
        api_key: the key that the front door asks for, or null.
        workers: whom the router must know, in the order in which prefill buckets are meant; empty without a router.
    """

    host: str
    address: str
    port: int
    model: str
    api_key: SecretRef | None = None
    workers: tuple[Worker, ...] = ()

    @property
    def url(self) -> str:
        """Where a client sends requests: ``http://address:port``."""
        return f"http://{endpoint(self.address, self.port)}"


class RestartPolicy(Frozen):
    """How often a unit that failed is started again by `watch`.

    Attributes:
        max: restarts in a row.
        backoff: seconds before the first; each further one waits twice as long.
    """

    max: int
    backoff: float


class Limits(Frozen):
    """The two clocks of bring-up and the patience of ``down``, all in seconds."""

    timeout: float
    stall: float
    grace: float


class Plan(Frozen):
    """A whole deployment. ``digest`` covers everything but itself; secrets count by reference only."""

    version: Literal[1] = 1
    name: str
    topology: Topology
    platform: str
    engine_version: str
    stages: tuple[tuple[str, ...], ...]
    hosts: tuple[PlanHost, ...]
    processes: tuple[Process, ...]
    front_door: FrontDoor
    limits: Limits
    restarts: Mapping[str, RestartPolicy] = Field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """``sha256:…`` over the canonical JSON (sorted keys, no spaces) of all fields but the digest."""
        text = json.dumps(self._body(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def _body(self) -> dict[str, Any]:
        """Give all fields but the digest; what nobody has asked for is left out, as plans before it did."""
        return self.model_dump(mode="json", exclude=None if self.restarts else {"restarts"})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy as pydantic does, without the digest that has been computed: a changed copy has another."""
        copy = super().model_copy(update=update, deep=deep)
        copy.__dict__.pop("digest", None)
        return copy

    def to_json(self) -> dict[str, Any]:
        """Give the public JSON object, digest included, keys in the contract's order."""
        body = self._body()
        head = {key: body.pop(key) for key in ("version", "name", "topology", "platform")}
        return {**head, "digest": self.digest, **body}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Read back what ``to_json`` gave.

        Raises:
            ValueError: the recorded digest does not match the content.
            pydantic.ValidationError: it is not a plan of this version.
        """
        fields = dict(data)
        recorded = fields.pop("digest", None)
        plan = cls.model_validate(fields)
        if recorded != plan.digest:
            raise ValueError(f"plan digest {plan.digest} does not match the recorded {recorded}")
        return plan

    def on_host(self, host: str) -> Iterator[Process]:
        """Yield the processes of one host in plan order."""
        return (process for process in self.processes if process.host == host)

    def of_units(self, units: Collection[str]) -> tuple[Process, ...]:
        """Give the processes of some units (``prefill/short``, ``router``) in plan order."""
        return tuple(process for process in self.processes if process.unit in units)

    @property
    def leaders(self) -> tuple[Process, ...]:
        """Give the leader process of each instance, in plan order."""
        return tuple(process for process in self.processes if process.leader)

    @property
    def lead_host(self) -> PlanHost:
        """The host that holds the deployment's lock: the host of the first leader."""
        name = self.leaders[0].host if self.leaders else self.processes[0].host
        return next(host for host in self.hosts if host.host == name)

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Names of all controller variables that secrets are taken from, sorted."""
        refs: set[str] = set()
        for process in self.processes:
            refs.update(v.variable for v in process.env.values() if isinstance(v, SecretRef))
            if process.secret_config is not None:
                refs.update(v.variable for v in process.secret_config.values.values())
        if self.front_door.api_key is not None:
            refs.add(self.front_door.api_key.variable)
        return tuple(sorted(refs))
