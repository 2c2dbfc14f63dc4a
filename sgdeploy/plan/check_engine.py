"""Do the engine's settings fit each other, the engine's version and the platform?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgdeploy.problems import KeyPath, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sgdeploy.plan.layout import Context, Layout
    from sgdeploy.plan.model import Process

WARMUP = "SGLANG_WARMUP_TIMEOUT"


def check_engine(context: Context) -> list[Problem]:
    """Check what is said once for all instances."""
    engine, catalogue = context.profile.engine, context.catalogue
    problems = []
    if engine.launch == "rank" and not catalogue.rank_launch:
        message = f"engine {catalogue.version} cannot be started as one process per rank: it has no --tp-rank-in-node"
        hint = "set `launch: node`, or `version: kunpeng` where the nodes have the Kunpeng fork"
        problems.append(Problem(message, hint, ("engine", "launch"), code="launch-rank"))
    if engine.numa_copies and not context.platform.packs_copies:
        message = f"numa_copies has no effect on platform {context.platform.kind}: it has no packed copies"
        hint = "set `numa_copies: false`"
        problems.append(Problem(message, hint, ("engine", "numa_copies"), level="warning", code="numa-copies"))
    elif engine.numa_copies and engine.launch != "rank":
        message = "numa_copies has no effect without `launch: rank`: one process per node runs the plain engine"
        hint = "set `launch: rank`, or `numa_copies: false`"
        problems.append(Problem(message, hint, ("engine", "numa_copies"), level="warning", code="numa-copies"))
    return problems


def check_instance(context: Context, layout: Layout) -> list[Problem]:
    """Check one instance with its merged flags and environment."""
    return [*_chunks(layout), *_warmup(context, layout), *_remarks(context, layout)]


def _chunks(layout: Layout) -> Iterator[Problem]:
    """Chunked prefill works in whole pages of each data parallel group; -1 switches it off."""
    size, page = layout.flags.get("chunked-prefill-size"), layout.flags.get("page-size")
    if not isinstance(size, int) or not isinstance(page, int) or size == -1 or page < 1:
        return
    groups = layout.shape.dp if layout.flags.get("enable-dp-attention") is True else 1
    unit = page * groups
    if size >= 1 and size % unit == 0:
        return
    product = f"page-size {page}" + (f" times {groups} data parallel groups" if groups > 1 else "")
    message = f"chunked-prefill-size {size} is no multiple of {unit} ({product})"
    nearest = [str(n) for n in (size // unit * unit, (size // unit + 1) * unit) if n > 0]
    hint = f"set {' or '.join(nearest)}, or -1 to switch it off"
    yield Problem(message, hint, layout.flag_path("chunked-prefill-size"), code="chunked-prefill")


def _warmup(context: Context, layout: Layout) -> Iterator[Problem]:
    value, limit = layout.env.values.get(WARMUP), context.profile.health.timeout
    if not isinstance(value, str) or not value.isdigit() or int(value) <= limit:
        return
    message = f"the engine may warm up for {value} s ({WARMUP}), but bring-up ends after {limit:g} s"
    hint = f"set `health.timeout` above {value}s, with time to load the weights added"
    yield Problem(message, hint, ("health", "timeout"), level="warning", code="warmup-limit")


def _remarks(context: Context, layout: Layout) -> Iterator[Problem]:
    for remark in context.platform.check(layout.shape, layout.flags, layout.env.values):
        if remark.subject == "flags":
            path = layout.flag_path(remark.key) if remark.key else (*layout.path, "flags")
        elif remark.subject == "env":
            path = _env_path(context, layout, remark.key)
        elif remark.subject == "settings":
            path = ("platform_settings", *(remark.key.split(".") if remark.key else ()))
        else:
            path = (*layout.path, "parallel", remark.key)
        yield Problem(remark.message, remark.hint, path, level=remark.level, code=remark.code)


def _env_path(context: Context, layout: Layout, name: str) -> KeyPath:
    """Where the profile set a variable; the platform's settings where it did not."""
    if name in layout.spec.env:
        return (*layout.path, "env", name)
    return ("engine", "env", name) if name in context.profile.engine.env else ("platform_settings",)


def check_places(processes: Sequence[Process], path: KeyPath) -> list[Problem]:
    """Check that on each host no two processes share a core or ask for different pages at one place."""
    cores: dict[tuple[str, int], str] = {}
    pages: dict[tuple[str, str], tuple[int, str]] = {}
    found: dict[str, Problem] = {}
    for process in processes:
        for core in process.cores or ():
            owner = cores.setdefault((process.host, core), process.label)
            if owner != process.label:
                text = f"core {core} of {process.host} is planned for {owner} and for {process.label}"
                found.setdefault("core-clash", _place(text, path, "core-clash"))
        for write in process.hugepages:
            value, owner = pages.setdefault((process.host, write.path), (write.value, process.label))
            if value != write.value:
                text = f"{owner} and {process.label} ask for {value} and {write.value} pages in {write.path}"
                found.setdefault("pages-clash", _place(text, path, "pages-clash"))
    return list(found.values())


def _place(message: str, path: KeyPath, code: str) -> Problem:
    return Problem(message, "correct `platform_settings.layout`", path, code=code)
