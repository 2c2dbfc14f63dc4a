"""Does the split hold what a runtime will ask for? Its parameters against a manifest dumped from a real one.

A tensor that is too small is loaded with a warning and leaves the rest of the parameter uninitialised, one of another
type is converted in silence (seen in SGLang 0.5.23); here both are errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.bundles import DRAFT
from sgdeploy.weights.cut.model import Parameter, SplitPlan
from sgdeploy.weights.cut.names import in_words
from sgdeploy.weights.cut.schema import EXPERTS
from sgdeploy.weights.cut.sizes import ATTENTION, GLOBAL, WHOLE, Sizes
from sgdeploy.words import plural

Form = tuple[str, tuple[int, ...]]
"""Type and shape."""

_TORCH = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "int16": "I16",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "float32": "F32",
    "int64": "I64",
    "float64": "F64",
}
"""Types as torch names them → as safetensors does."""

_OTHER = "the manifest is of another model than the checkpoint"
_NEXTN = "NextN"
_TIED = ("model.embed_tokens.weight", "lm_head.weight")
"""Where embeddings are tied, a runtime lists both and loads the second alone (both share their memory)."""


@dataclass(frozen=True)
class Expected:
    """What a runtime builds.

    Attributes:
        draft: whether it is a draft model's class.
        alike: whether what stands for one rank holds for all.
        ranks: (stage, rank) → parameter → type and shape.
    """

    draft: bool
    alike: bool
    ranks: Mapping[tuple[int, int], Mapping[str, Form]]


def read_expected(text: str) -> Expected | str:
    """Read a manifest, or say why it is none."""
    try:
        body = json.loads(text)
        ranks = {
            _rank(name): {str(key): (_TORCH.get(form[0], form[0]), tuple(form[1])) for key, form in parameters.items()}
            for name, parameters in body["params"].items()
        }
        draft = str(body.get("class", "")).endswith(_NEXTN)
        return Expected(draft, bool(body.get("identical_on_all_ranks", False)), ranks) if ranks else "it names no rank"
    except KeyError as error:
        return f"it has no {error.args[0]}"
    except (ValueError, TypeError, AttributeError, IndexError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"


def _rank(name: str) -> tuple[int, int]:
    """Read ``pp0-tp3``."""
    stage, _, rank = name.partition("-")
    return int(stage.removeprefix("pp")), int(rank.removeprefix("tp"))


def check_expected(plan: SplitPlan, sizes: Sizes, expected: Expected, source: str) -> Iterator[Problem]:
    """Compare names, types and shapes; one problem for all that differs, with the first and what may help.

    Args:
        plan: of the split.
        sizes: of the deployment.
        expected: what the runtime builds.
        source: how messages call the manifest.
    """
    most = max(rank for _, rank in expected.ranks)
    if most >= sizes.tp or (not expected.alike and len({rank for _, rank in expected.ranks}) < sizes.tp):
        message = f"with --expect {source}: it is of a runtime with {most + 1} ranks per stage, the plan has {sizes.tp}"
        yield Problem(message, "dump it with the sizes of this deployment", code="expect")
        return
    for stage in sorted({stage for stage, _ in expected.ranks}):
        made = _made(plan, stage, draft=expected.draft)
        if not made:
            what = "draft model (mtp)" if expected.draft else f"pipeline stage {stage}"
            yield Problem(f"with --expect {source}: the plan has no {what}", code="expect")
            continue
        yield from _compare(
            made, _forms(expected, stage, made), sizes, source, bare=plan.facts.get("layout") == "kunpeng_state"
        )


def _made(plan: SplitPlan, stage: int, *, draft: bool) -> dict[str, Parameter]:
    """Give the parameters of a rank of a stage; all ranks have the same names and shapes."""
    return {
        each.name: each
        for bundle in plan.bundles
        if (bundle.folder == DRAFT if draft else bundle.folder != DRAFT and bundle.stage == stage)
        for each in bundle.parameters
    }


def _forms(expected: Expected, stage: int, made: Mapping[str, Parameter]) -> dict[str, Form]:
    """Give what the ranks of a stage expect; where they differ, what is not as planned counts."""
    forms: dict[str, Form] = {}
    for key, parameters in expected.ranks.items():
        for name, form in parameters.items() if key[0] == stage else ():
            each = made.get(name)
            if name not in forms or (each is not None and forms[name] == (each.dtype, each.shape)):
                forms[name] = form
    return forms


def _compare(
    made: Mapping[str, Parameter], forms: Mapping[str, Form], sizes: Sizes, source: str, *, bare: bool
) -> Iterator[Problem]:
    tied = _TIED[0] in forms and _TIED[0] not in made and _TIED[1] in made
    wanted = {name: form for name, form in forms.items() if not (tied and name == _TIED[0])}
    lines: list[tuple[str, str, str | None]] = []
    for name, (dtype, shape) in wanted.items():
        each = made.get(name)
        if each is None:
            lines.append((name, f"plan none, runtime {dtype} {list(shape)}", None))
            continue
        # Experts in files of their own lack the first dimension, which their loader adds.
        built = shape[1:] if bare and each.kind == EXPERTS else shape
        if (each.dtype, each.shape) != (dtype, built):
            difference = f"plan {_form(each.dtype, each.shape)}, runtime {_form(dtype, built)}"
            lines.append((name, difference, _rule(each, built, sizes)))
    extra = sorted(made.keys() - wanted.keys(), key=in_words)
    lines += [(name, f"plan {_form(made[name].dtype, made[name].shape)}, runtime none", None) for name in extra]
    if lines:
        # A class helps only where every difference is one of cuts: what we leave whole cannot become larger.
        other = next((line for line in lines if line[2] == _OTHER), None)
        name, difference, hint = other or next((line for line in lines if line[2]), lines[0])
        count = f"{plural(len(lines), 'parameter')} {'differ' if lines[1:] else 'differs'}"
        message = f"with --expect {source}: {count}, first {name}: {difference}"
        yield Problem(message, hint or "another scheme, other sizes or another model", code="expect")


def _form(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype} {list(shape)}"


def _rule(each: Parameter, shape: tuple[int, ...], sizes: Sizes) -> str | None:
    """Guess the rule that would give the runtime's shape: the ratio of both sizes tells into how many it cuts."""
    ours, theirs = each.shape, shape
    differ = [axis for axis in range(min(len(ours), len(theirs))) if ours[axis] != theirs[axis]]
    if each.kind == EXPERTS or len(ours) != len(theirs) or len(differ) != 1:
        return None
    ways = each.ways * ours[differ[0]] / theirs[differ[0]]
    rules = {1: WHOLE, sizes.attention: ATTENTION, sizes.tp: GLOBAL}
    if ways < 1:
        return _OTHER
    rule = next((rule for number, rule in rules.items() if number == ways), None)
    return f"try --class {each.kind}={rule}" if rule else None
