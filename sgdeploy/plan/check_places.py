"""Does every process have its place to itself? Cores, memory nodes and pages on each host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgdeploy.problems import KeyPath, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sgdeploy.plan.layout import Layout
    from sgdeploy.plan.model import Process

_LAYOUT = "correct `platform_settings.layout`"


def check_places(processes: Sequence[Process], layouts: Mapping[str, Layout]) -> list[Problem]:
    """Check that on each host no two processes share a core or a memory node, or ask for different pages at one place.

    Args:
        processes: of the whole plan.
        layouts: the instances by unit, for where a profile would change a place.
    """
    found: dict[str, Problem] = {}
    for problem in (*_shared(processes, layouts), *_pages(processes)):
        found.setdefault(problem.code, problem)
    return list(found.values())


def _shared(processes: Sequence[Process], layouts: Mapping[str, Layout]) -> Iterator[Problem]:
    owners: dict[tuple[str, str, int], Process] = {}
    for process in processes:
        for what, numbers in (("core", process.cores), ("memory node", process.memory_nodes)):
            for number in numbers or ():
                owner = owners.setdefault((process.host, what, number), process)
                # Processes of one instance on one node may share a memory node; nobody else may.
                if owner is not process and (what == "core" or owner.unit != process.unit):
                    message = f"{what} {number} of {process.host} is planned for {owner.label} and for {process.label}"
                    path, hint = _where(owner, process, layouts, "cores" if what == "core" else "memory_nodes")
                    yield Problem(message, hint, path, code=f"{what.replace(' ', '-')}-clash")


def _where(one: Process, other: Process, layouts: Mapping[str, Layout], key: str) -> tuple[KeyPath, str]:
    """Where a profile says the place of one of two processes, and what to do."""
    for process in (other, one):
        if process.role == "router":
            return ("router", key), "give the router others with `router.cores`, or a host of its own"
        layout = layouts.get(process.unit)
        if layout is not None and getattr(layout.spec, key) is not None:
            return (*layout.path, key), f"give {process.unit} others"
    return ("platform_settings",), _LAYOUT


def _pages(processes: Sequence[Process]) -> Iterator[Problem]:
    pages: dict[tuple[str, str], tuple[int, str]] = {}
    for process in processes:
        for write in process.hugepages:
            value, owner = pages.setdefault((process.host, write.path), (write.value, process.label))
            if value != write.value:
                text = f"{owner} and {process.label} ask for {value} and {write.value} pages in {write.path}"
                yield Problem(text, _LAYOUT, ("platform_settings",), code="pages-clash")
