"""A plan that a person reads in a minute: who runs where, on which ports and cores, with which environment."""

from __future__ import annotations

import shlex
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.text import Text

from sgdeploy.console.text import clean, duration, grid
from sgdeploy.plan.model import SecretRef
from sgdeploy.words import name_list, number_list, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sgdeploy.plan.model import EnvValue, Hugepages, KernelModule, Plan, PlanHost, Process
    from sgdeploy.plan.part import Part


_COMMANDS = "commands of the leaders (--host HOST shows all of one host)"


def plan_lines(plan: Plan) -> list[Text]:
    """Summarise a plan: head, stages and instances, routing, hosts, environment and the leaders' commands."""
    sections = (
        ("instances", _instances(plan)),
        ("routing", _routing(plan)),
        ("hosts", grid([_titles(_HOST_TITLES), *(_host_row(plan, host) for host in plan.hosts)], indent=2)),
        ("preparation", _preparation(plan)),
        ("environment", _environment(plan.processes)),
        (_COMMANDS, [line for leader in plan.leaders for line in _command(leader)]),
    )
    lines = _head(plan)
    for title, body in sections:
        if body:
            lines += [Text(), Text(title, "bold"), *body]
    return lines


def host_lines(plan: Plan, part: Part) -> list[Text]:
    """Show everything that a part of a plan gets, host by host."""
    lines: list[Text] = []
    for host in part.hosts(plan):
        processes = [process for process in part.processes(plan) if process.host == host.host]
        lines += [*([Text()] if lines else []), *_host_lines(host, processes)]
    return lines


def _host_lines(host: PlanHost, processes: Iterable[Process]) -> list[Text]:
    """Show what a host is prepared with, and each process with its whole command and environment."""
    lines = [Text.assemble((clean(host.host), "bold"), f" ({clean(host.address)}): {clean(host.run_dir)}")]
    lines += [Text(f"  {sentence}") for sentence in _prepared(host)]
    for process in processes:
        lines += [Text(), *_command(process)]
        facts = [("waits for", ", ".join(process.wait_for)), ("listens", _ports(process))]
        facts += [("connects", ", ".join(map("=".join, process.connects.items())))]
        facts += [("cores", number_list(process.cores or ()))]
        facts += [("memory nodes", number_list(process.memory_nodes or ()))]
        facts += [("hugepages", pages_text(process.hugepages)), ("devices", ", ".join(process.devices))]
        facts += [("activate", ", ".join(process.activate)), ("folder", process.cwd or ""), ("log", process.log)]
        lines += grid([(key, clean(value)) for key, value in facts if value], indent=4)
        lines += grid([(name, "=", value) for name, value in _settings(process).items()], indent=4)
    return lines


def secret_text(value: EnvValue) -> str:
    """Show a value; a secret as the profile writes it: ``${env:NAME}``."""
    return f"${{env:{value.variable}}}" if isinstance(value, SecretRef) else clean(value)


_HOST_TITLES = ("HOST", "ADDRESS", "SSH", "PROCESSES", "CORES", "PORTS")


def _titles(titles: Iterable[str]) -> list[Text]:
    return [Text(title, "dim") for title in titles]


def _head(plan: Plan) -> list[Text]:
    door, limits = plan.front_door, plan.limits
    size = f"{plural(len(plan.processes), 'process')} on {plural(len(plan.hosts), 'host')}"
    key = f", key {secret_text(door.api_key)}" if door.api_key else ""
    whole, stall, grace = map(duration, (limits.timeout, limits.stall, limits.grace))
    title = Text.assemble((clean(plan.name), "bold"), f": {plan.topology} on {clean(plan.platform)}, {size}")
    rows = [
        ("engine", clean(plan.engine_version)),
        ("digest", plan.digest),
        ("front door", f"{clean(door.url)} (model {clean(door.model)}{key})"),
        ("time limits", f"{whole} in all, {stall} without progress, {grace} to drain"),
    ]
    return [title, *grid(rows, indent=2)]


def _instances(plan: Plan) -> list[Text]:
    titles = ("STAGE", "INSTANCE", "HOSTS", "PROCESSES", "LEADER", "RENDEZVOUS")
    rows: list[Sequence[str | Text]] = [_titles(titles)]
    for number, units in enumerate(plan.stages, start=1):
        for unit in units:
            members = [process for process in plan.processes if process.unit == unit]
            hosts = list(dict.fromkeys(clean(process.host) for process in members))
            leader = next((process for process in members if process.leader), None)
            meeting = sorted({p.connects["rendezvous"] for p in members if "rendezvous" in p.connects})
            where = f"{clean(leader.host)} ({_ports(leader)})" if leader else ""
            rows.append((str(number), clean(unit), name_list(hosts), str(len(members)), where, ", ".join(meeting)))
    return grid(rows, indent=2)


def _routing(plan: Plan) -> list[Text]:
    """Give whom the router hands requests to, and by which policy; nothing without a router."""
    router = next((process for process in plan.processes if process.role == "router"), None)
    if router is None:
        return []
    policies = {role: _policy(router.argv, role) for role in ("prefill", "decode")}
    rows: list[Sequence[str | Text]] = [_titles(("ROLE", "WORKER", "BOOTSTRAP", "SERVED BY", "POLICY"))]
    for worker in plan.front_door.workers:
        port = "" if worker.bootstrap is None else str(worker.bootstrap)
        rows.append((worker.role, clean(worker.url), port, clean(worker.unit), policies.pop(worker.role, "")))
    return grid(rows, indent=2)


def _policy(argv: Sequence[str], role: str) -> str:
    """Give the policy of a role: its own flag, else that of both; the router's default where neither is said."""
    said = dict(pairwise(argv))
    return clean(said.get(f"--{role}-policy") or said.get("--policy") or "(the router's default)")


def _host_row(plan: Plan, host: PlanHost) -> Sequence[str]:
    processes = list(plan.on_host(host.host))
    cores = [core for process in processes for core in process.cores or ()]
    ports = [port for process in processes for port in process.listens.values() if port is not None]
    how = ("local" if host.connection == "local" else clean(host.ssh)) + (" (sudo)" if host.sudo else "")
    where = number_list(cores, strides=True) or "any"
    return (clean(host.host), clean(host.address), how, str(len(processes)), where, number_list(ports))


def _preparation(plan: Plan) -> list[Text]:
    """Give what is prepared on the hosts, said once where it is the same on all of them."""
    wanted: dict[tuple[str, ...], list[str]] = {}
    for host in plan.hosts:
        own = {process.id: process.hugepages for process in plan.on_host(host.host) if process.hugepages}
        each = [f"hugepages of its own before the start of each of {plural(len(own), 'process')}"] if own else []
        wanted.setdefault((*_prepared(host), *each), []).append(clean(host.host))
    return [Text(f"  {name_list(hosts)}: {sentence}") for sentences, hosts in wanted.items() for sentence in sentences]


def _prepared(host: PlanHost) -> list[str]:
    sentences = [_module(module) for module in host.modules]
    if host.hugepages:
        sentences.append(f"hugepages {pages_text(host.hugepages)}")
    sentences += [f"file {clean(file.path)} ({file.mode})" for file in host.files]
    if host.sysfs_root:
        sentences.append(f"sysfs paths are taken below {clean(host.sysfs_root)}")
    if host.known_hosts == "off":
        sentences.append("host keys are NOT checked")
    return sentences


def _module(module: KernelModule) -> str:
    params = " ".join(f"{clean(key)}={clean(value)}" for key, value in module.params.items())
    return f"kernel module {clean(module.name)} from {clean(module.file)} {params}".rstrip()


def pages_text(pages: Iterable[Hugepages]) -> str:
    """Shorten ``/sys/…/node16/hugepages/hugepages-2048kB/nr_hugepages`` to ``node 16 2048kB = 2020``."""
    groups: dict[tuple[str, int], list[int]] = {}
    others = []
    for page in pages:
        parts = page.path.split("/")
        node = next((part[4:] for part in parts if part.startswith("node") and part[4:].isdigit()), None)
        size = next((part.removeprefix("hugepages-") for part in parts if part.startswith("hugepages-")), None)
        if node is None or size is None:
            others.append(f"{clean(page.path)} = {page.value}")
        else:
            groups.setdefault((clean(size), page.value), []).append(int(node))
    nodes = [f"node {number_list(n, strides=True)} {size} = {value}" for (size, value), n in groups.items()]
    return ", ".join([*nodes, *others])


def _settings(process: Process) -> dict[str, str]:
    """Give all variables of a process as text, prepended search paths included."""
    prepended = {name: ":".join(map(clean, paths)) + f":${name}" for name, paths in process.env_prepend.items()}
    return {name: secret_text(value) for name, value in process.env.items()} | prepended


def _environment(processes: Sequence[Process]) -> list[Text]:
    """Give what all processes share once, then how many values each other variable has and an example."""
    settings = [_settings(process) for process in processes]
    found: dict[str, Counter[str]] = {}
    for each in settings:
        for name, value in each.items():
            found.setdefault(name, Counter())[value] += 1
    rows = []
    for name, values in sorted(found.items()):
        value, count = values.most_common(1)[0]
        rows.append((name, "=", value if count == len(settings) else _varying(values, len(settings))))
    return grid(rows, indent=2)


def _varying(values: Mapping[str, int], processes: int) -> str:
    first = next(iter(values))
    if len(values) == 1:
        return f"{first}   (in {values[first]} of {plural(processes, 'process')})"
    return f"{first} …   ({len(values)} values)"


def _ports(process: Process) -> str:
    return ", ".join(f"{clean(name)} {port}" for name, port in process.listens.items() if port is not None)


def _command(process: Process) -> list[Text]:
    """Give the engine's own command, a flag a line, each word quoted as a shell wants it."""
    words = [clean(word) for word in process.argv]
    groups: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--") and groups[-1]:
            groups.append([])
        groups[-1].append(shlex.quote(word))
    body = [f"      {' '.join(group)}" for group in groups[1:]]
    head = Text.assemble("  ", (clean(process.label), "bold"), f": {' '.join(groups[0])}")
    return [head, *map(Text, body)]
