"""Who we are on a host, and which programs, modules and limits are there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sgdeploy.facts.model import Finding, Limit
from sgdeploy.facts.raw import Raw, Wanted
from sgdeploy.facts.subject import Subject, kernel_name, sysfs
from sgdeploy.facts.text import write_size
from sgdeploy.plan.model import PlanHost
from sgdeploy.words import number_list, plural

KERNEL = "/proc/sys/kernel/osrelease"
MODULES = "/proc/modules"
SYS_MODULE = "/sys/module"
LIMITS = "/proc/self/limits"

PYTHON_LEAST = (3, 7)
"""What the node helper is written for."""

TOOLS = ("bash", "setsid", "taskset", "numactl", "insmod")


def wanted(host: PlanHost) -> Wanted:
    """Ask for the kernel, its modules, the limits of a session, and which tools there are."""
    parameters = (f"{sysfs(host, SYS_MODULE)}/{kernel_name(module.name)}/parameters/*" for module in host.modules)
    return Wanted(files=(KERNEL, MODULES, LIMITS, *parameters), programs=TOOLS)


def python(text: object) -> tuple[int, ...]:
    """Read the helper's own version, ``3.11.2`` or ``[3, 11, 2]``."""
    parts = text if isinstance(text, (list, tuple)) else re.findall(r"\d+", str(text or ""))
    return tuple(int(part) for part in parts[:3])


def modules(raw: Raw) -> frozenset[str]:
    """Read the names of the loaded modules; one that is built in shows by its parameters only."""
    listed = (line.split()[0] for line in raw.file(MODULES).splitlines() if line.strip())
    return frozenset((*listed, *parameters(raw)))


def parameters(raw: Raw) -> dict[str, dict[str, str]]:
    """Read module → parameters of the loaded modules that the plan names."""
    found: dict[str, dict[str, str]] = {}
    for match, text in raw.files(rf"{SYS_MODULE}/(\w+)/parameters/(\w+)"):
        found.setdefault(match[1], {})[match[2]] = text.strip()
    return found


def limit(raw: Raw, name: str) -> Limit | None:
    """Read one line of the session's limits, such as ``Max locked memory``."""
    match = re.search(rf"^{name}\s+(\w+)\s+(\w+)", raw.file(LIMITS), re.MULTILINE)
    return Limit(*(None if text == "unlimited" else int(text) for text in match.groups())) if match else None


def check(subject: Subject) -> Iterator[Finding]:
    """Hold the host's software and our rights against what the plan needs."""
    yield from _python(subject)
    yield from _tools(subject)
    yield from _root(subject)
    yield from _memlock(subject)
    yield from _parameters(subject)


def _parameters(subject: Subject) -> Iterator[Finding]:
    """A module that is loaded otherwise than planned is never reloaded: somebody may be using it."""
    differ = [
        f"{module.name} has {name}={now}, planned is {name}={asked}"
        for module in subject.host.modules
        for name, asked in module.params.items()
        if (now := subject.facts.parameters.get(kernel_name(module.name), {}).get(name)) is not None
        and not same_parameter(now, asked)
    ]
    if differ:
        names = " ".join(kernel_name(module.name) for module in subject.host.modules)
        yield subject.error(
            "module-differs",
            f"a kernel module is loaded with other parameters: {'; '.join(differ)}",
            f"when nobody uses it: rmmod {names}; or plan the parameters that it has",
        )


def same_parameter(one: str, other: str) -> bool:
    """Tell whether two spellings of a parameter mean the same (the kernel shows booleans as Y and N)."""
    spelling = {"y": "1", "true": "1", "n": "0", "false": "0"}
    return spelling.get(one.lower(), one) == spelling.get(other.lower(), other)


def _python(subject: Subject) -> Iterator[Finding]:
    version = subject.facts.python
    if version and version < PYTHON_LEAST:
        yield subject.error(
            "python-old",
            f"python3 is {_dotted(version)}, the node helper needs {_dotted(PYTHON_LEAST)} or newer",
            "install a newer python3; it must be the first one in the PATH of a non-login shell",
        )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def _tools(subject: Subject) -> Iterator[Finding]:
    pinned = [process for process in subject.processes if process.cores is not None]
    bound = {node for process in subject.processes for node in process.memory_nodes or ()}
    to_load = [module.name for module in subject.to_load]
    needs = {
        "bash": ("every process script is run by it", "install bash"),
        "taskset": (
            f"cores are planned for {plural(len(pinned), 'process')}" if pinned else "",
            "install util-linux, or set node.pin: false",
        ),
        "numactl": (
            f"memory is bound to NUMA nodes {number_list(bound)}" if bound else "",
            "install numactl: taskset alone does not bind memory",
        ),
        "insmod": (
            f"the kernel module {', '.join(to_load)} is to be loaded" if to_load else "",
            "install kmod, or load the module before",
        ),
    }
    for tool, (why, hint) in needs.items():
        if why and tool in subject.facts.tools and subject.facts.tools[tool] is None:
            yield subject.error(f"no-{tool}", f"{tool} is not installed (not in PATH), but {why}", hint)


def _root(subject: Subject) -> Iterator[Finding]:
    facts, host = subject.facts, subject.host
    if facts.uid in {0, None}:
        return
    work = []
    if subject.writes and not host.sysfs_root:
        work.append(f"set hugepages ({plural(len(subject.writes), 'sysfs file')})")
    if subject.to_load:
        work.append(f"load the kernel module {', '.join(module.name for module in subject.to_load)}")
    if work:
        yield subject.error(
            "not-root",
            f"{subject.who} (uid {facts.uid}) may not {' and '.join(work)}",
            "become root there: `user: root`, or `sudo: true`, in the inventory's ssh section",
        )


def _memlock(subject: Subject) -> Iterator[Finding]:
    """Without the right to lock memory RDMA registration fails (kvcache-ai/Mooncake issue 1382)."""
    limit_now = subject.facts.memlock
    devices = sorted({device for process in subject.real for device in process.devices})
    if devices and limit_now is not None and limit_now.soft is not None:
        yield subject.warning(
            "memlock",
            f"a session here may lock {write_size(limit_now.soft)} of memory; "
            f"the RDMA devices {', '.join(devices)} need more",
            "set `memlock unlimited` for our user in /etc/security/limits.conf and connect again",
        )
