"""Do the engine's settings fit each other, the engine's version and the platform?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgdeploy.platforms.base import TOKENIZER_APART
from sgdeploy.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sgdeploy.plan.layout import Context, Layout
    from sgdeploy.problems import KeyPath

WARMUP = "SGLANG_WARMUP_TIMEOUT"


def check_engine(context: Context) -> list[Problem]:
    """Check what is said once for all instances."""
    engine, catalogue = context.profile.engine, context.catalogue
    problems = []
    if engine.launch == "rank" and not catalogue.rank_launch:
        message = f"engine {catalogue.version} cannot be started as one process per rank: it has no --tp-rank-in-node"
        hint = "set `launch: node`, or `version: kunpeng` where the nodes have the Kunpeng fork"
        problems.append(Problem(message, hint, ("engine", "launch"), code="launch-rank"))
    if context.tokenizer_apart and not catalogue.tokenizer_apart:
        message = f"engine {catalogue.version} cannot tokenize apart from its ranks: only the Kunpeng fork can"
        hint = "set `tokenizer: inside`, or `engine.version: kunpeng` where the nodes have the Kunpeng fork"
        problems.append(Problem(message, hint, ("router", "tokenizer"), code="tokenizer-engine"))
    if engine.numa_copies and not context.platform.packs_copies:
        message = f"numa_copies has no effect on platform {context.platform.kind}: it has no packed copies"
        hint = "set `numa_copies: false`"
        problems.append(Problem(message, hint, ("engine", "numa_copies"), level="warning", code="numa-copies"))
    elif engine.numa_copies and engine.launch != "rank":
        message = "numa_copies has no effect without `launch: rank`: one process per node runs the plain engine"
        hint = "set `launch: rank`, or `numa_copies: false`"
        problems.append(Problem(message, hint, ("engine", "numa_copies"), level="warning", code="numa-copies"))
    return [*problems, *_clocks(context)]


def _clocks(context: Context) -> Iterator[Problem]:
    """A stall that is longer than the whole never rings; the default one may be, where only the whole was set."""
    health = context.profile.health
    if "stall" in health.model_fields_set and health.stall > health.timeout:
        message = f"a stall of {health.stall:g} s is never noticed: bring-up ends after {health.timeout:g} s"
        hint = "set `health.stall` below `health.timeout`"
        yield Problem(message, hint, ("health", "stall"), level="warning", code="stall-limit")


def check_instance(context: Context, layout: Layout) -> list[Problem]:
    """Check one instance with its merged flags and environment."""
    return [
        *_chunks(layout),
        *_warmup(context, layout),
        *_tokenizer(context, layout),
        *_pinning(context, layout),
        *_bootstrap(layout),
        *_remarks(context, layout),
    ]


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


def _tokenizer(context: Context, layout: Layout) -> Iterator[Problem]:
    """The switch must say what the plan does: with it alone the ranks open no HTTP, and nobody else does."""
    value, planned = layout.env.values.get(TOKENIZER_APART), context.tokenizer_apart
    if value in {None, "0", "1"} and (value == "1") is planned:
        return
    if planned:
        message = f"{TOKENIZER_APART} must be 1 with `tokenizer: separate`, got {'nothing' if value is None else value}"
        hint = "remove the variable: the plan sets it"
    elif context.router is None:
        message = f"{TOKENIZER_APART} works only with a prefill and decode split"
        hint = "remove the variable, or use `topology: pd`"
    else:
        message = f"with {TOKENIZER_APART} = {value} the ranks open no HTTP, and no server beside the router is planned"
        hint = "set `router.tokenizer: separate` instead"
    yield Problem(message, hint, layout.env_path(TOKENIZER_APART), code="tokenizer-variable")


def _pinning(context: Context, layout: Layout) -> Iterator[Problem]:
    if not layout.shape.by_rank:
        return
    for key in ("cores", "memory_nodes"):
        if getattr(layout.spec, key) is not None:
            message = f"`{key}` holds for one process per node; with `launch: rank` the platform places each rank"
            hint = f"remove it; `platform_settings` of {context.platform.kind} may have settings for it"
            yield Problem(message, hint, (*layout.path, key), code="cores-by-rank")


def _bootstrap(layout: Layout) -> Iterator[Problem]:
    if layout.role == "decode" and layout.spec.bootstrap_port is not None:
        message = "a decode instance opens no bootstrap server: the port has no effect"
        path = (*layout.path, "bootstrap_port")
        yield Problem(message, "set it on the prefill", path, level="warning", code="bootstrap-unused")


def _remarks(context: Context, layout: Layout) -> Iterator[Problem]:
    for remark in context.platform.check(layout.shape, layout.flags, layout.env.values):
        if remark.subject == "flags":
            path = layout.flag_path(remark.key) if remark.key else _flags_path(context, layout)
        elif remark.subject == "env":
            path = layout.env_path(remark.key)
        elif remark.subject == "settings":
            path = ("platform_settings", *(remark.key.split(".") if remark.key else ()))
        else:
            path = (*layout.path, "parallel", remark.key)
        yield Problem(remark.message, remark.hint, path, level=remark.level, code=remark.code)


def _flags_path(context: Context, layout: Layout) -> KeyPath:
    """Where flags of all instances stand, or would; of this one, where the profile says nothing of the engine."""
    return ("engine", "flags") if "engine" in context.profile.model_fields_set else (*layout.path, "flags")
