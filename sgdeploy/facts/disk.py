"""Files and folders: the run folder, and every path that the plan needs to exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import PurePosixPath

from sgdeploy.facts.model import Finding, HostFacts
from sgdeploy.facts.raw import Wanted
from sgdeploy.facts.subject import Subject, simulated
from sgdeploy.facts.text import MIB, write_size
from sgdeploy.plan.model import Plan, PlanHost, Process
from sgdeploy.words import name_list, plural

SPACE_LEAST = 64 * MIB
SPACE_PER_PROCESS = 4 * MIB
"""Scripts, records and the log of one start: a log at the default level was below 0.5 MB until ready (0.5.23)."""

INODES_PER_PROCESS = 8
"""Script, record, exit file, log, and as many again while they are renamed into place."""

INODES_LEAST = 64

MODEL_FLAGS = ("--model-path", "--model", "--tokenizer-path", "--speculative-draft-model-path")
"""Flags that may name a folder on the host; a value that is no absolute path is left to the engine."""


def wanted(host: PlanHost, processes: tuple[Process, ...]) -> Wanted:
    """Ask for the run folder's file system and for every path that must exist."""
    paths = [path for process in processes for path in _needs(process)]
    modules = [module.file for module in host.modules]
    return Wanted(stat=(*_ancestors(host.run_dir), *modules, *paths), space=(host.run_dir,))


def _ancestors(run_dir: str) -> tuple[str, ...]:
    """Give the run folder and all folders above it, the longest first."""
    path = PurePosixPath(run_dir)
    return tuple(str(part) for part in (path, *path.parents) if str(part) not in {".", "/", "~"})


def _needs(process: Process) -> tuple[str, ...]:
    paths = (*model_paths(process), *programs(process), *activations(process), *libraries(process))
    return (*paths, *preloads(process), *folders(process))


def model_paths(process: Process) -> tuple[str, ...]:
    """Give the model folders of a process; the simulated engine reads none."""
    if simulated(process):
        return ()
    words = [part for word in process.argv for part in (word.split("=", 1) if word.startswith("--") else [word])]
    values = [value for flag, value in pairwise(words) if flag in MODEL_FLAGS]
    return tuple(dict.fromkeys(value for value in values if _fixed(value)))


def programs(process: Process) -> tuple[str, ...]:
    """Give the program where it is an absolute path; others are found by the activated environment's PATH."""
    return (process.argv[0],) if 0 not in process.in_run_dir and _fixed(process.argv[0]) else ()


def activations(process: Process) -> dict[str, str]:
    """Give path that must exist → the activation that needs it."""
    found: dict[str, str] = {}
    for item in process.activate:
        kind, _, rest = item.partition(":")
        if kind == "conda":
            found[f"{rest.rpartition(':')[0]}/bin/conda"] = item
        elif kind == "venv":
            found[f"{rest}/bin/activate"] = item
        else:
            found[rest] = item
    return found


def libraries(process: Process) -> tuple[str, ...]:
    """Give the folders that are put in front of search paths."""
    return tuple(path for entries in process.env_prepend.values() for path in entries if _fixed(path))


def preloads(process: Process) -> tuple[str, ...]:
    """Give the libraries that are loaded before all others; the loader goes on without one that is missing."""
    value = process.env.get("LD_PRELOAD")
    words = value.replace(":", " ").split() if isinstance(value, str) else []
    return tuple(path for path in words if _fixed(path))


def folders(process: Process) -> tuple[str, ...]:
    """Give the working folder where it is not the run folder."""
    return (process.cwd,) if process.cwd is not None else ()


def _fixed(path: str) -> bool:
    return path.startswith("/")


def check(subject: Subject) -> Iterator[Finding]:
    """Hold the host's files against what the plan needs; models are compared over all hosts by ``check_models``."""
    yield from _run_dir(subject)
    yield from _programs(subject)
    yield from _activations(subject)
    yield from _folders(subject)


def _run_dir(subject: Subject) -> Iterator[Finding]:
    facts, run_dir = subject.facts, subject.host.run_dir
    for path in _ancestors(run_dir):
        found = facts.paths.get(path)
        # A link to nowhere does not exist, and yet no folder can be made in its place.
        if found is not None and found.kind is not None and not found.folder:
            hint = "move it away, or set node.run_dir to another folder"
            yield subject.error(
                "run-dir-kind", f"{path} is no folder ({found.kind}); the run folder is {run_dir}", hint
            )
            return
    if facts.run_dir is None:
        return
    if facts.run_dir.error:
        hint = "look at it on the host (a dead mount?), or set node.run_dir to another folder"
        yield subject.error("run-dir-unknown", f"the run folder {run_dir} gives no answer: {facts.run_dir.error}", hint)
        return
    if facts.run_dir.writable is False:
        yield subject.error(
            "run-dir-denied",
            f"{subject.who} may not write {facts.run_dir.nearest}; the run folder is {run_dir}",
            f"set node.run_dir to a folder of yours, or as root: install -d -o {facts.user or 'USER'} {_root(run_dir)}",
        )
    yield from _room(subject)


def _root(run_dir: str) -> str:
    return str(PurePosixPath(run_dir).parents[1])


def _room(subject: Subject) -> Iterator[Finding]:
    space, number = subject.facts.run_dir, len(subject.processes)
    if space is None:
        return
    need = max(SPACE_LEAST, SPACE_PER_PROCESS * number)
    names = INODES_LEAST + INODES_PER_PROCESS * number
    what = f"scripts, records and logs of {plural(number, 'process')}"
    hint = "make room, or set node.run_dir to another file system"
    if space.free is not None and space.free < need:
        # Where both look the same when they are written short, bytes show which is less.
        alike = write_size(space.free) == write_size(need)
        free, wanted = (f"{n} bytes" if alike else write_size(n) for n in (space.free, need))
        yield subject.error("run-dir-space", f"{free} free at {space.nearest}, {wanted} needed for {what}", hint)
    if space.inodes_free is not None and space.inodes_free < names:
        yield subject.error(
            "run-dir-inodes",
            f"room for {space.inodes_free} more files at {space.nearest}, {names} needed for {what}",
            hint,
        )


def _programs(subject: Subject) -> Iterator[Finding]:
    facts = subject.facts
    paths = [path for process in subject.processes for path in programs(process)]
    missing = _absent(facts, paths)
    if missing:
        yield subject.error(
            "program-missing",
            f"no program to run: {missing}",
            "install the engine at that place on this host, or correct engine.executable or platform_settings",
        )
    refused = [p for p in paths if (it := facts.paths.get(p)) and it.exists and (it.folder or not it.executable)]
    if refused:
        yield subject.error(
            "program-denied",
            f"{subject.who} may not run {name_list(refused)}",
            f"look at it with `ls -l`; as its owner: chmod +x {refused[0]}",
        )


def _activations(subject: Subject) -> Iterator[Finding]:
    needed = {path: item for process in subject.processes for path, item in activations(process).items()}
    missing = [path for path in needed if _absent(subject.facts, [path])]
    if missing:
        yield subject.error(
            "activation-missing",
            "cannot be activated: " + "; ".join(f"{needed[p]}: {_absent(subject.facts, [p])}" for p in missing),
            "install it on this host, or correct engine.activate or platform_settings",
        )


def _folders(subject: Subject) -> Iterator[Finding]:
    facts = subject.facts
    cwd = _absent(facts, [path for process in subject.processes for path in folders(process)])
    if cwd:
        yield subject.error("cwd-missing", f"the working folder {cwd}", "create it, or correct engine.cwd")
    search = _absent(facts, [path for process in subject.real for path in libraries(process)])
    if search:
        hint = "install what belongs there, or correct platform_settings"
        yield subject.warning("library-path-missing", f"a folder of a search path is missing: {search}", hint)
    ahead = _absent(facts, [path for process in subject.real for path in preloads(process)])
    if ahead:
        hint = "install it on this host, or correct platform_settings.pthread_hook or LD_PRELOAD in env"
        yield subject.error("preload-missing", f"a library to be preloaded: {ahead}", hint)
    module = _absent(facts, [module.file for module in subject.to_load])
    if module:
        hint = "install the driver on this host, or correct the path in platform_settings"
        yield subject.error("module-file-missing", f"the kernel module's file {module}", hint)


def _absent(facts: HostFacts, paths: Iterable[str]) -> str:
    """Say which of these paths are not there, or cannot be looked at and why; "" if all are."""
    gone: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        found = facts.paths.get(path)
        if found is not None and not found.exists:
            gone.setdefault(found.error, []).append(path)
    return "; ".join(
        f"{name_list(group)} "
        + (f"cannot be looked at ({why})" if why else f"do{'es' if len(group) == 1 else ''} not exist")
        for why, group in gone.items()
    )


def check_models(plan: Plan, facts: Mapping[str, HostFacts]) -> Iterator[Finding]:
    """Say on which of all hosts a model folder is missing or cannot be read."""
    needed: dict[str, dict[str, None]] = {}
    for process in plan.processes:
        if process.host in facts:
            needed.setdefault(process.host, {}).update(dict.fromkeys(model_paths(process)))
    seen = {
        host: {path: facts[host].paths[path] for path in paths if path in facts[host].paths}
        for host, paths in needed.items()
        if paths
    }
    missing = {host: [p for p, it in paths.items() if not it.exists and not it.error] for host, paths in seen.items()}
    refused = {
        host: [p for p, it in paths.items() if it.error or (it.exists and not it.readable)]
        for host, paths in seen.items()
    }
    yield from _model_findings("model-missing", "does not exist", missing)
    yield from _model_findings("model-denied", "cannot be read by our user", refused)


def _model_findings(code: str, what: str, bad: Mapping[str, list[str]]) -> Iterator[Finding]:
    hosts = [host for host, paths in bad.items() if paths]
    named = f": {', '.join(hosts)}" if len(hosts) < len(bad) else ""
    where = f"on {len(hosts)} of {plural(len(bad), 'host')}{named}"
    hint = "copy or mount the weights there, or correct model.path: it must be the same on every host"
    for host in hosts:
        yield Finding(code, "error", host, f"the model path {name_list(bad[host])} {what} ({where})", hint)
