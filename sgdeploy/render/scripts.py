"""Plan → readable bash scripts: one per process, and per host one that starts and one that stops them by hand.

``docs/scripts.md`` is the manual of what they do.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sgdeploy.parcels import shipped
from sgdeploy.plan.model import EnvValue, Plan, PlanHost, PlannedFile, Process
from sgdeploy.render.environment import compiled, fill
from sgdeploy.render.layout import component, inside, script_key
from sgdeploy.render.quote import RenderError, Word, plain
from sgdeploy.render.views import activations, host_view, process_view, settings_view

README = "README.txt"
"""Name of the file that says how to run a written tree by hand."""


def process_script(plan: Plan, process: Process, templates: Path | None = None) -> str:
    """Give the bash script that becomes this process.

    It finds the run folder from its own place (``<run folder>/scripts/<key>.sh``), activates, exports, and
    ends in ``exec``, so the pid that runs it is the pid of the program. A secret is taken from
    ``SGDEPLOY_SECRET_<NAME>``, or from ``NAME`` where that is not set.

    Args:
        plan: the plan that the process belongs to.
        process: one of its processes.
        templates: folder searched before the shipped templates.

    Raises:
        RenderError: a value cannot be carried by a script, or a template is broken.
    """
    settings = _settings(tuple(process.env.items()), tuple(process.env_prepend.items()), templates)
    view = process_view(process, _activate(process.activate, templates), settings)
    values = {"plan": plan, "process": process, "view": view}
    return fill(compiled(templates).process, values)


def host_script(plan: Plan, host: PlanHost, templates: Path | None = None) -> str:
    """Give ``start.sh``: modules, hugepages and all processes of one host, with bash alone.

    Raises:
        RenderError: as in ``process_script``.
    """
    return fill(
        compiled(templates).start, {"plan": plan, "view": host_view(plan, host, tuple(plan.on_host(host.host)))}
    )


def stop_script(plan: Plan, host: PlanHost, templates: Path | None = None) -> str:
    """Give ``stop.sh``: the way back from ``start.sh``, for what that one recorded and nothing else.

    Raises:
        RenderError: as in ``process_script``.
    """
    return fill(compiled(templates).stop, {"plan": plan, "view": host_view(plan, host, tuple(plan.on_host(host.host)))})


def tree(plan: Plan, templates: Path | None = None) -> dict[str, str]:
    """Give all files of a plan as relative path → text, one folder per host, for ``plan --out``.

    Raises:
        RenderError: as in ``process_script``, or two processes of a host would share a script.
    """
    ours = compiled(templates)
    made = {README: fill(ours.readme, {"plan": plan})}
    processes: dict[str, list[Process]] = {host.host: [] for host in plan.hosts}
    for process in plan.processes:
        processes[process.host].append(process)
    for host in plan.hosts:
        folder = component(host.host, f"host {plain(host.host)}")
        values = {"plan": plan, "view": host_view(plan, host, processes[host.host])}
        made[f"{folder}/start.sh"] = fill(ours.start, values)
        made[f"{folder}/stop.sh"] = fill(ours.stop, values)
        for file in host.files:
            made[f"{folder}/{inside(file.path, f'host {plain(host.host)}')}"] = shipped_text(file)
    for process in plan.processes:
        made[f"{process.host}/scripts/{script_key(process)}.sh"] = process_script(plan, process, templates)
    return made


@lru_cache(maxsize=1024)
def _activate(items: tuple[str, ...], templates: Path | None) -> str:
    """Give the part of a script that sources what comes before the program; made once, as ``_settings`` is."""
    return Word(fill(compiled(templates).activate, {"steps": activations(items)}).rstrip("\n"))


@lru_cache(maxsize=1024)
def _settings(
    env: tuple[tuple[str, EnvValue], ...],
    env_prepend: tuple[tuple[str, tuple[str, ...]], ...],
    templates: Path | None,
) -> str:
    """Give the part of a script that sets the environment; all ranks of a host share it, so it is made once."""
    return Word(fill(compiled(templates).env, vars(settings_view(dict(env), dict(env_prepend)))))


def shipped_text(file: PlannedFile) -> str:
    """Read a file that travels with a plan from the package.

    Raises:
        RenderError: it does not ship with sgdeploy.
    """
    try:
        return shipped(inside(file.source, "shipped file"))
    except FileNotFoundError as error:
        raise RenderError(str(error)) from error
