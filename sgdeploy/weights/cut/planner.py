"""The door of the pure half: headers, a configuration and wishes in; a proven split, or every problem, out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sgdeploy.problems import Problem
from sgdeploy.profile.suggest import did_you_mean
from sgdeploy.weights.cut import bundles, complete, proof
from sgdeploy.weights.cut.assign import Assigned, Assigner, Depth, Key, Mtp
from sgdeploy.weights.cut.book import family
from sgdeploy.weights.cut.build import Builder, Wrong
from sgdeploy.weights.cut.lanes import TOLD, Misfit, Terms
from sgdeploy.weights.cut.model import Bundle, Checkpoint, Parameter, SplitPlan
from sgdeploy.weights.cut.names import Claim, Names, first_of, form_of
from sgdeploy.weights.cut.schema import EXPERTS, Family, Layout, Row, Scheme
from sgdeploy.weights.cut.sizes import WHOLE, Sizes, check_sizes, stages
from sgdeploy.words import plural

FORMAT = 1
"""Counts up when the same input is written otherwise, so that older splits are not taken for new ones."""


@dataclass(frozen=True)
class Wish:
    """What an operator wants of a split.

    Attributes:
        sizes: of the deployment.
        scheme: of the runtime.
        classes: class → rule instead of the scheme's.
        layout: of the files; None for the scheme's default.
        mtp: what becomes of multi-token prediction; None: separate where the checkpoint has it.
        pad_vocabulary: whether missing rows of the vocabulary may become zeros.
    """

    sizes: Sizes
    scheme: Scheme
    classes: Mapping[str, str] = field(default_factory=dict)
    layout: Layout | None = None
    mtp: Mtp | None = None
    pad_vocabulary: bool = False

    @property
    def files(self) -> Layout:
        """The layout of the files."""
        return self.layout or self.scheme.layouts[0]


def make_plan(checkpoint: Checkpoint, wish: Wish) -> tuple[SplitPlan | None, list[Problem]]:
    """Plan and prove a split; the plan is None where an error stands in its way."""
    kin = family(checkpoint.config, wish.scheme)
    if isinstance(kin, Problem):
        return None, [kin]
    rows = (*wish.scheme.rows, *kin.rows)
    rules, problems = _rules(wish, rows)
    counts, wrong = _counts(checkpoint.config, kin, len(checkpoint.tensors))
    problems += wrong
    if not wrong:
        problems += check_sizes(wish.sizes, counts.layers, counts.experts, wish.scheme, wish.files)
    if problems:
        return None, problems
    depth = Depth(stages(counts.layers, wish.sizes), counts.drafts)
    assigner = Assigner(kin, Names(rows, checkpoint.config), depth, wish.mtp or "separate", wish.files)
    assigned, problems = assigner.assign(checkpoint)
    problems += _check(assigned, depth, wish, rules)
    builder = _builder(assigned, rules, wish, counts.experts, checkpoint.config)
    made, wrong = _bundles(builder, depth, wish)
    problems += wrong
    if problems:
        return None, problems
    facts = _facts(wish, rules)
    plan = SplitPlan(tuple(made), tuple(assigned.dropped), rules, _digest(checkpoint, rows, wish, facts), facts)
    problems += proof.prove(plan, checkpoint, wish.sizes.tp)
    return (None if problems else plan), problems


@dataclass(frozen=True)
class _Counts:
    layers: int = 0
    drafts: int = 0
    experts: int = 0


def _counts(config: Mapping[str, Any], kin: Family, tensors: int) -> tuple[_Counts, list[Problem]]:
    """Read how many layers and experts there are: never more than tensors, whatever the file says."""
    problems: list[Problem] = []

    def number(key: str | None, least: int, missing: int | None) -> int:
        value = config.get(key, missing) if key is not None else 0
        if value is None and missing is not None:
            value = missing
        if type(value) is not int or value < least:
            problems.append(Problem(f"config.json: {key} must be a whole number from {least}, got {value!r}"))
            return 0
        if value > tensors:
            message = f"config.json: {key} is {value}, and the checkpoint has only {plural(tensors, 'tensor')} in all"
            problems.append(Problem(message, "config.json and the weights do not belong together", code="count"))
        return value

    layers = number("num_hidden_layers", 1, None)
    return _Counts(layers, number(kin.draft_layers, 0, 0), number(kin.experts, 0, 0) if kin.experts else 0), problems


def _rules(wish: Wish, rows: Sequence[Row]) -> tuple[dict[str, str], list[Problem]]:
    """Give class → rule, the scheme's with the operator's over them."""
    cut = {row.cls for row in rows if row.axis is not None}
    known = {row.cls for row in rows}
    problems: list[Problem] = []
    for name, rule in wish.classes.items():
        if name == EXPERTS:
            problems.append(Problem("experts are spread by expert parallelism, not by a rule", "change --ep instead"))
        elif name not in known:
            guess = did_you_mean(name, known)
            hint = f"did you mean {guess}?" if guess else f"classes: {', '.join(sorted(known - {EXPERTS}))}"
            problems.append(Problem(f"this model has no class {name}", hint, code="class-unknown"))
        elif rule != WHOLE and name not in cut:
            problems.append(Problem(f"class {name} is never cut; {rule} does not fit", "leave it out, or say whole"))
    rules = {**wish.scheme.classes, **wish.classes}
    for name in sorted(known - rules.keys() - {EXPERTS}):
        hint = f"add `classes: {{{name}: whole}}` to it, or pass --class {name}=RULE"
        problems.append(Problem(f"scheme {wish.scheme.name} has no rule for class {name}", hint, code="class-missing"))
    if wish.files not in wish.scheme.layouts:
        hint = f"it reads: {', '.join(wish.scheme.layouts)}"
        problems.append(Problem(f"the runtime of scheme {wish.scheme.name} does not read {wish.files}", hint))
    return {name: rule for name, rule in rules.items() if name in known}, problems


def _check(assigned: Assigned, depth: Depth, wish: Wish, rules: Mapping[str, str]) -> list[Problem]:
    problems = [*complete.check_scales(assigned), *complete.check_layers(assigned, depth)]
    kinds = {claim.row.cls for claims in assigned.members.values() for claim in claims}
    problems += bundles.check_rules(wish.files, wish.sizes, rules, kinds)
    if depth.drafts > 1 and any(key.draft for key in assigned.members):
        message = f"{depth.drafts} layers of multi-token prediction do not fit into one draft model"
        problems.append(Problem(message, "pass --mtp inline or --mtp drop", code="mtp"))
    return problems


def _builder(
    assigned: Assigned, rules: Mapping[str, str], wish: Wish, experts: int, config: Mapping[str, Any]
) -> Builder:
    quantisation = config.get("quantization_config")
    size = quantisation.get("weight_block_size") if isinstance(quantisation, Mapping) else None
    pair = isinstance(size, list) and [type(number) for number in size] == [int, int] and min(size) > 0
    block = (size[0], size[1]) if isinstance(size, list) and pair else None
    scheme = wish.scheme
    terms = Terms(config, scheme.heads, scheme.vocabulary_padding, wish.pad_vocabulary, block)
    return Builder(assigned, rules, wish.sizes, experts, wish.files == "sharded_state", terms)


def _bundles(builder: Builder, depth: Depth, wish: Wish) -> tuple[list[Bundle], list[Problem]]:
    """Build all parameters and bundle them by folder."""
    shared: dict[tuple[str, int], list[Parameter]] = {}
    single: dict[tuple[str, int, int, int], list[Parameter]] = {}
    wrong: list[Wrong] = []
    for key, claims in builder.assigned.members.items():
        built, found = builder.build(key, claims)
        wrong += found
        where = (bundles.folder(wish.sizes, key.stage, draft=key.draft), key.stage)
        for number, each in enumerate(built):
            if each.kind == EXPERTS and not builder.stacked:
                single.setdefault((*where, _file_layer(key, claims[0], depth), number), []).append(each)
            else:
                shared.setdefault(where, []).append(each)
    made: list[Bundle] = []
    for where, parameters in shared.items():
        if builder.stacked:
            made += bundles.sharded(wish.sizes, builder.rules, where, parameters)
        else:
            made.append(bundles.by_attention_rank(wish.sizes, where, parameters))
    for (place, stage, layer, number), parameters in single.items():
        made.append(bundles.of_expert(wish.sizes, (place, stage), layer, number, builder.experts, parameters))
    return made, _misfits(wrong)


def _file_layer(key: Key, claim: Claim, depth: Depth) -> int:
    """Give the number by which an expert's file counts its layer; a draft model counts its own."""
    layer = claim.layer or 0
    return layer - depth.layers if key.draft else layer


def _misfits(wrong: Sequence[Wrong]) -> list[Problem]:
    """Say each kind of misfit once, with the first tensor and how many there are."""
    groups: dict[tuple[str, Misfit], list[str]] = {}
    for name, misfit in wrong:
        if misfit is TOLD:
            continue
        groups.setdefault((form_of(name), misfit), []).append(name)
    problems = []
    for (_, misfit), names in groups.items():
        glue = " " if misfit.reason.split(" ", 1)[0] in {"is", "has"} else ": "
        problems.append(Problem(f"{first_of(names)}{glue}{misfit.reason}", misfit.hint, code=misfit.code))
    return problems


def _facts(wish: Wish, rules: Mapping[str, str]) -> dict[str, Any]:
    sizes = wish.sizes
    return {
        "scheme": wish.scheme.name,
        "layout": wish.files,
        "tp": sizes.tp,
        "dp": sizes.dp,
        "ep": sizes.ep,
        "pp": sizes.pp,
        "redundant_experts": sizes.redundant,
        "mtp": wish.mtp or "separate",
        "rules": dict(sorted(rules.items())),
    }


def _digest(checkpoint: Checkpoint, rows: Sequence[Row], wish: Wish, facts: Mapping[str, Any]) -> str:
    """Give ``sha256:…`` over all that decides what is written."""
    body = {
        "format": FORMAT,
        "shards": [[shard.name, shard.size, shard.header] for shard in checkpoint.shards],
        "config": checkpoint.config,
        "rows": [row.model_dump(mode="json") for row in rows],
        "scheme": wish.scheme.model_dump(mode="json", exclude={"rows", "about", "name"}),
        "sizes": asdict(wish.sizes),
        "pad": wish.pad_vocabulary,
        "facts": {key: value for key, value in facts.items() if key != "scheme"},
    }
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), default=str)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
