"""The proof follows bytes, not rules: whatever way a plan is wrong, it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sgdeploy.weights.cut.model import Bundle, Checkpoint, Cut, Lane, Parameter, Placement, SplitPlan, View
from sgdeploy.weights.cut.proof import prove
from sgdeploy.weights.disk.checkpoint import read_checkpoint
from tests.weights.planning import planned, wish
from tests.weights.writing import EIGHT

ATTENTION = "model.layers.0.self_attn.o_proj.weight"
GATE_UP = "model.layers.0.mlp.gate_up_proj.weight"
W2 = "model.layers.2.mlp.experts.w2_weight"

Change = Callable[[Parameter], Parameter]


def lanes(change: Callable[[Lane], Lane]) -> Change:
    return lambda each: replace(each, stacks=tuple(tuple(map(change, stack)) for stack in each.stacks))


def moved(lane: Lane) -> Lane:
    """Read from the tensor that follows."""
    view = lane.views[0]
    tensor = replace(view.tensor, offset=view.tensor.offset + view.tensor.size)
    return replace(lane, views=(replace(view, tensor=tensor),))


def held(groups: Callable[[tuple[tuple[int, ...], ...]], tuple[tuple[int, ...], ...]]) -> Change:
    def change(each: Parameter) -> Parameter:
        assert each.experts is not None
        return replace(each, experts=Placement(groups(each.experts.groups), each.experts.width))

    return change


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (ATTENTION, lanes(lambda lane: replace(lane, cut=Cut(128, 31))), "needs 2048 bytes and would get 1984"),
        (ATTENTION, lanes(lambda lane: replace(lane, cut=Cut(128, 32, 2))), "64 of 128 bytes of a row are taken"),
        (ATTENTION, lanes(lambda lane: replace(lane, cut=Cut(128, 64))), "needs 2048 bytes and would get 4096"),
        (ATTENTION, lanes(moved), "goes nowhere and is not listed as dropped"),
        (GATE_UP, lanes(lambda lane: replace(lane, cut=Cut(96, 24))), "would get 3072"),
        (GATE_UP, lambda each: replace(each, stacks=(each.stacks[0][:1] * 2,)), "goes nowhere"),
        (
            GATE_UP,
            lanes(lambda lane: replace(lane, views=(View(lane.views[0].tensor, 1, 127),))),
            "cuts overlap or leave a gap",
        ),
        (W2, held(lambda groups: (groups[1], *groups[1:])), "goes nowhere"),
        (W2, held(lambda groups: ((0, 1), *groups[1:])), "needs 2048 bytes and would get 4096"),
    ],
)
def test_a_plan_that_is_wrong_is_found_out(pristine: Path, name: str, change: Change, message: str) -> None:
    checkpoint, plan = checked(pristine)
    assert list(prove(plan, checkpoint, EIGHT.tp)) == []
    wrong = replace(plan, bundles=tuple(changed(bundle, name, change) for bundle in plan.bundles))
    found = [problem.message for problem in prove(wrong, checkpoint, EIGHT.tp)]
    assert any(message in each for each in found), found


def changed(bundle: Bundle, name: str, change: Change) -> Bundle:
    return replace(bundle, parameters=tuple(change(each) if each.name == name else each for each in bundle.parameters))


def checked(model: Path) -> tuple[Checkpoint, SplitPlan]:
    checkpoint, problems = read_checkpoint(model)
    assert checkpoint is not None, problems
    return checkpoint, planned(model, wish("kunpeng", EIGHT))


def test_what_is_dropped_must_be_listed(pristine: Path) -> None:
    checkpoint, problems = read_checkpoint(pristine)
    assert checkpoint is not None, problems
    plan = planned(pristine, wish("kunpeng", EIGHT, mtp="drop"))
    assert list(prove(plan, checkpoint, EIGHT.tp)) == []
    (problem,) = prove(replace(plan, dropped=plan.dropped[1:]), checkpoint, EIGHT.tp)
    assert problem.message == f"{plan.dropped[0].tensor.name} goes nowhere and is not listed as dropped"
