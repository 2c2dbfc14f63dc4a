"""What a deployment's plan says about the split that it needs: sizes, load format, and the flags that move a cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sgdeploy.plan.model import Plan, Process
from sgdeploy.weights.cut.sizes import ATTENTION, GLOBAL, WHOLE, Sizes

KUNPENG, CPU = "kunpeng-920f", "cpu"
LOAD_FORMATS = ("sharded_state", "kunpeng_state")
"""Load formats that read splits; they are also the names of the layouts."""

_ENGINES = frozenset({"native", "prefill", "decode"})
_NO_BACKEND = frozenset({"", "none"})


@dataclass(frozen=True)
class Deployment:
    """One instance as far as its weights are concerned.

    Attributes:
        unit: selector of the instance.
        model: folder that it loads from.
        sizes: of the instance.
        nodes: that it runs on.
        scheme: of its runtime.
        classes: class → rule, where its flags move a cut away from the scheme's rule.
        load_format: as its flags say, "" where they are silent.
    """

    unit: str
    model: str
    sizes: Sizes
    nodes: int
    scheme: str
    classes: Mapping[str, str] = field(default_factory=dict)
    load_format: str = ""


def engine_flags(argv: Iterable[str]) -> dict[str, str]:
    """Read flags of a command, long name without dashes → value ("" for a switch)."""
    flags: dict[str, str] = {}
    name = ""
    for word in argv:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            flags[name] = value
        elif name:
            flags[name], name = word, ""
    return flags


def deployments(plan: Plan) -> tuple[Deployment, ...]:
    """Give the instances of a plan that load weights, in plan order."""
    found: dict[str, Process] = {}
    nodes: dict[str, set[str]] = {}
    for process in plan.processes:
        if process.role in _ENGINES:
            found.setdefault(process.unit, process)
            nodes.setdefault(process.unit, set()).add(process.host)
    return tuple(deployment(process, plan.platform, len(nodes[unit])) for unit, process in found.items())


def deployment(process: Process, platform: str, nodes: int) -> Deployment:
    """Read one instance from the command of one of its processes."""
    flags = engine_flags(process.argv)

    def number(name: str, default: int) -> int:
        value = flags.get(name, "")
        return int(value) if value.isdigit() and int(value) else default

    # Without attention data parallelism, dp means copies of the whole engine, each with all ranks in one group.
    groups = number("dp-size", 1) if "enable-dp-attention" in flags else 1
    sizes = Sizes(
        tp=number("tp-size", 1),
        dp=groups,
        ep=number("ep-size", 1),
        pp=number("pp-size", 1),
        redundant=number("ep-num-redundant-experts", 0),
    )
    scheme = {KUNPENG: "kunpeng", CPU: "upstream-cpu"}.get(platform, "upstream")
    classes = _kunpeng(flags) if platform == KUNPENG else _upstream(flags)
    model = flags.get("model-path", "")
    return Deployment(process.unit, model, sizes, nodes, scheme, classes, flags.get("load-format", ""))


def _upstream(flags: Mapping[str, str]) -> dict[str, str]:
    classes: dict[str, str] = {}
    if "enable-dp-lm-head" in flags:
        classes |= {"lm_head": ATTENTION, "mtp_lm_head": ATTENTION}
    if flags.get("moe-dense-tp-size") == "1":
        classes["dense_mlp"] = WHOLE
    if flags.get("moe-a2a-backend", "") not in _NO_BACKEND:
        classes["shared_experts"] = WHOLE
    return classes


def _kunpeng(flags: Mapping[str, str]) -> dict[str, str]:
    """Read the fork's flags: it has a switch of its own for dense layers."""
    classes: dict[str, str] = {}
    if "enable-dp-lm-head" not in flags:
        classes["lm_head"] = GLOBAL
    if "enable-dp-mlp" not in flags:
        classes["dense_mlp"] = GLOBAL
    return classes
