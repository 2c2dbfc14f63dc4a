"""What the templates see: the plan's values checked and put in the order in which a script says them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from sgdeploy.plan.model import EnvValue, Plan, PlanHost, Process, SecretRef
from sgdeploy.render.layout import component, inside, script_key, script_keys
from sgdeploy.render.quote import RenderError, Word, plain, variable, word
from sgdeploy.words import number_list


@dataclass(frozen=True)
class Activation:
    """One thing that is sourced before the program: a conda environment, a venv or a vendor's file.

    Attributes:
        kind: ``conda``, ``venv`` or ``setvars``.
        path: conda base, folder of the venv, or the file.
        name: name of the conda environment, "" elsewhere.
    """

    kind: str
    path: str
    name: str = ""


@dataclass(frozen=True)
class Variable:
    """One exported variable: a value, or the name of the controller's variable that holds the secret."""

    name: str
    value: str
    secret: str | None = None


@dataclass(frozen=True)
class Settings:
    """The environment of a process as ``partials/env.sh.j2`` says it.

    Attributes:
        secrets: names of the secrets that are taken, sorted.
        variables: what is exported, sorted by name.
        search_paths: name and colon-joined entries of what is put in front, sorted by name.
    """

    secrets: tuple[str, ...]
    variables: tuple[Variable, ...]
    search_paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ProcessView:
    """Everything that ``process.sh.j2`` says about one process.

    Attributes:
        key: name of its script without the ending.
        about: comment lines: who it is, its ports.
        activate: what is sourced first, ready to stand in the script, "" for nothing.
        secret_file_missing: message where the file with secret flags is not there, "" where none is needed.
        settings: the environment, ready to stand in the script.
        cores: list for ``taskset -c``, or None.
        memory_nodes: list for ``numactl --membind``, or None.
        command: the command line, quoted, continued on a new line before each long flag.
    """

    key: str
    about: tuple[str, ...]
    activate: str
    secret_file_missing: str
    settings: str
    cores: str | None
    memory_nodes: str | None
    command: str


@dataclass(frozen=True)
class HostProcess:
    """One process as the host scripts see it."""

    key: str
    process: Process


@dataclass(frozen=True)
class HostView:
    """Everything that ``host.sh.j2`` and ``stop.sh.j2`` say about one host.

    Attributes:
        host: the host.
        processes: what runs there, in the order of the plan.
        secrets: variables that must hold secrets when it is started by hand, sorted.
        tools: programs that must be there.
        grace: seconds to wait for a drain, a whole number since bash counts in those.
    """

    host: PlanHost
    processes: tuple[HostProcess, ...]
    secrets: tuple[str, ...]
    tools: tuple[str, ...]
    grace: int

    @property
    def leaders(self) -> tuple[HostProcess, ...]:
        """Processes that are told to end first (a follower that goes first makes its leader crash)."""
        return tuple(entry for entry in self.processes if entry.process.leader)


def process_view(process: Process, activate: str, settings: str) -> ProcessView:
    """Order and check what a process script says.

    Args:
        process: one process.
        activate: finished text on what is sourced first.
        settings: finished text on its environment.

    Raises:
        RenderError: something in it cannot be said in a script.
    """
    return ProcessView(
        key=script_key(process),
        about=_about(process),
        activate=activate,
        secret_file_missing=_secret_file_missing(process),
        settings=settings,
        cores=None if process.cores is None else number_list(process.cores),
        memory_nodes=None if process.memory_nodes is None else number_list(process.memory_nodes),
        command=_command(process),
    )


def settings_view(env: Mapping[str, EnvValue], env_prepend: Mapping[str, tuple[str, ...]]) -> Settings:
    """Order and check the environment of a process.

    Raises:
        RenderError: bash cannot set a variable of that name.
    """
    variables = tuple(
        Variable(variable(name), "", variable(value.variable))
        if isinstance(value, SecretRef)
        else Variable(variable(name), value)
        for name, value in sorted(env.items())
    )
    return Settings(
        secrets=tuple(sorted({entry.secret for entry in variables if entry.secret is not None})),
        variables=variables,
        search_paths=tuple((variable(name), ":".join(parts)) for name, parts in sorted(env_prepend.items()) if parts),
    )


def host_view(plan: Plan, host: PlanHost, processes: Sequence[Process]) -> HostView:
    """Order and check what the scripts of one host say; ``processes`` are those of the host, in plan order.

    Raises:
        RenderError: something in it cannot be said in a script.
    """
    keys = script_keys(processes)
    for process in processes:
        component(process.log, f"log of process {plain(process.id)}")
    values = (value for process in processes for value in process.env.values())
    tools = ["setsid", "grep"]
    if any(process.cores is not None for process in processes):
        tools.append("taskset")
    if any(process.memory_nodes is not None for process in processes):
        tools.append("numactl")
    return HostView(
        host,
        tuple(HostProcess(keys[process.id], process) for process in processes),
        tuple(sorted({value.variable for value in values if isinstance(value, SecretRef)})),
        tuple(tools),
        ceil(plan.limits.grace),
    )


def _about(process: Process) -> tuple[str, ...]:
    """Say in comments what the process is and which ports it has to do with."""
    standing = [f"{process.unit} on host {process.host} ({process.address})"]
    if process.node_rank is not None:
        standing.append(f"node rank {process.node_rank}")
    if process.rank_in_node is not None:
        standing.append(f"rank in node {process.rank_in_node}")
    if process.leader:
        standing.append("leader")
    return (
        ", ".join(standing),
        *(f"listens on port {port} ({name})" for name, port in process.listens.items() if port is not None),
        *(f"connects to {where} ({name})" for name, where in process.connects.items()),
        *(f"starts when {name} is ready" for name in process.wait_for),
    )


def _secret_file_missing(process: Process) -> str:
    if process.secret_config is None:
        return ""
    path = inside(process.secret_config.path, f"process {plain(process.id)}")
    flags = ", ".join(f"`{flag}: <{ref.variable}>`" for flag, ref in process.secret_config.values.items())
    return (
        f"{path} is missing in the run folder; sgdeploy writes it at start, "
        f"by hand make it with mode 0600 and the lines {flags}"
    )


def _command(process: Process) -> str:
    """Quote a command line and break it before each long flag, so that a script shows one flag per line."""
    if not process.argv or not process.argv[0]:
        raise RenderError(f"process {plain(process.id)} has no program to run")
    words = [word(text) for text in process.argv]
    for index in process.in_run_dir:
        words[index] = f'"$run_dir"/{words[index]}'
    gaps = [" \\\n  " if text.startswith("--") and text != "--" else " " for text in process.argv[1:]]
    return Word(words[0] + "".join([gap + text for gap, text in zip(gaps, words[1:], strict=True)]))


def activations(items: Iterable[str]) -> tuple[Activation, ...]:
    """Read what is sourced before a program, in order.

    Raises:
        RenderError: one of them is of no kind that we know.
    """
    return tuple(_activation(item) for item in items)


def _activation(item: str) -> Activation:
    """Read ``conda:BASE:ENV``, ``venv:DIR`` or ``setvars:FILE``."""
    kind, _, rest = item.partition(":")
    if kind == "conda":
        base, _, name = rest.rpartition(":")
        if base and name:
            return Activation(kind, base, name)
    elif kind in {"venv", "setvars"} and rest:
        return Activation(kind, rest)
    raise RenderError(
        f"{item!a} cannot be activated",
        hint="write conda:BASE:ENV, venv:DIR or setvars:FILE in engine.activate",
    )
