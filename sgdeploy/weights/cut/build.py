"""From claims to parameters: completeness, joins, cuts, shapes and types. Every misfit of every tensor is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sgdeploy.weights.cut.assign import Assigned, Key
from sgdeploy.weights.cut.lanes import TOLD, Misfit, Terms, cut, follow, scale_misfit, weight_cut
from sgdeploy.weights.cut.model import Cut, Lane, Parameter, Tensor, View
from sgdeploy.weights.cut.names import BIAS, SCALES, Claim
from sgdeploy.weights.cut.schema import EXPERTS
from sgdeploy.weights.cut.sizes import Sizes, placement

Wrong = tuple[str, Misfit]
"""A tensor's (or parameter's) name and what is wrong with it."""

_DAMAGED = "the checkpoint is damaged"


@dataclass(frozen=True)
class Builder:
    """Builds the parameters of one model.

    Attributes:
        assigned: who goes where.
        rules: class → rule.
        sizes: of the deployment.
        experts: logical experts, 0 for none.
        stacked: whether the experts of a rank lie in one tensor of three dimensions, or each in files of its own.
        terms: of the cuts.
        seen: cuts that were made before.
    """

    assigned: Assigned
    rules: Mapping[str, str]
    sizes: Sizes
    experts: int
    stacked: bool
    terms: Terms
    seen: dict[tuple[object, ...], Cut | Misfit] = field(default_factory=dict)

    def build(self, key: Key, claims: list[Claim]) -> tuple[list[Parameter], list[Wrong]]:
        """Build one parameter (one per expert where they are not stacked), and say what stands in its way."""
        slots: dict[int, list[Claim]] = {}
        for claim in claims:
            slots.setdefault(claim.expert or 0, []).append(claim)
        wrong = self._incomplete(key, claims[0], slots)
        if wrong:
            return [], wrong
        stacks: list[tuple[Lane, ...]] = []
        for slot in sorted(slots):
            members = sorted(slots[slot], key=lambda claim: claim.row.position)
            lanes, found = self._lanes(members)
            wrong += found or _unequal(members)
            stacks.append(lanes)
        wrong += [] if wrong else _uneven(stacks)
        return ([], wrong) if wrong else (self._parameters(key, claims[0], stacks), [])

    def _incomplete(self, key: Key, first: Claim, slots: Mapping[int, list[Claim]]) -> list[Wrong]:
        """Find members and experts that are missing or there twice."""
        wrong: list[Wrong] = []
        if first.row.cls == EXPERTS:
            missing = sorted(set(range(self.experts)) - slots.keys())
            beyond = sorted(slots.keys() - set(range(self.experts)))
            if missing or beyond:
                reason = f"is there for {len(slots)} experts, config.json says {self.experts}"
                numbers = f"missing: {missing[:8]}" if missing else f"beyond the last: {beyond[:8]}"
                wrong.append((key.name, Misfit(f"{reason} ({numbers})", "the checkpoint is incomplete", "experts")))
        for slot, members in slots.items():
            there = sorted(claim.row.position for claim in members)
            if there != list(range(members[0].row.members)):
                names = ", ".join(sorted(claim.tensor.name for claim in members))
                where = f" of expert {slot}" if first.expert is not None else ""
                reason = f"{members[0].row.members} tensors make it up{where}, found: {names}"
                wrong.append((key.name, Misfit(reason, "the checkpoint is incomplete", "members")))
        return wrong

    def _lanes(self, members: list[Claim]) -> tuple[tuple[Lane, ...], list[Wrong]]:
        """Cut the members of one parameter (of one expert): each on its own, or all as one."""
        row = members[0].row
        ways, words = self._rule(row.cls)
        if row.join == "first" and ways > 1 and len(members) > 1:
            found = self._joined(members, ways, words)
            return ((found,), []) if isinstance(found, Lane) else ((), [found])
        lanes: list[Lane] = []
        wrong: list[Wrong] = []
        for claim in members:
            rows = claim.tensor.rows // claim.row.parts
            if rows * claim.row.parts != claim.tensor.rows:
                reason = f"{claim.tensor.rows} rows are not {claim.row.parts} equal parts"
                wrong.append((claim.tensor.name, Misfit(reason, None, "shape")))
                continue
            found_cut = self._cut(claim, ways, words)
            if isinstance(found_cut, Misfit):
                wrong.append((claim.tensor.name, found_cut))
                continue
            columns = _by_columns(claim)
            views = [View(claim.tensor, part * rows, rows) for part in range(claim.row.parts)]
            lanes += [Lane((view,), columns, found_cut) for view in views]
        return tuple(lanes), wrong

    def _rule(self, cls: str) -> tuple[int, str]:
        if cls == EXPERTS:
            ways = self.sizes.expert_tp if self.stacked else 1
            return ways, f"expert TP {ways}"
        rule = self.rules[cls]
        return self.sizes.ways(rule), self.sizes.words(rule)

    def _cut(self, claim: Claim, ways: int, words: str) -> Cut | Misfit:
        """Cut one tensor; those of one row that have the same shapes, such as all experts, are looked at once."""
        weight = self.assigned.weights.get(claim.module) if claim.kind in SCALES else None
        key = (claim.row.tensor, claim.kind, claim.tensor.shape, weight.shape if weight else None)
        found = self.seen.get(key)
        if found is None:
            found = self.seen[key] = self._new_cut(claim, ways, words)
        return found

    def _new_cut(self, claim: Claim, ways: int, words: str) -> Cut | Misfit:
        """Cut one tensor along the axis of its row."""
        row, tensor = claim.row, claim.tensor
        axis = row.axis or "rows"
        if claim.kind in SCALES:
            return self._scale_cut(claim, axis, ways, words)
        if claim.kind == BIAS and axis == "columns":
            return cut(tensor.rows, tensor.rows)
        return weight_cut(_length(tensor, axis) // row.parts, row, ways, words, self.terms)

    def _scale_cut(self, claim: Claim, axis: str, ways: int, words: str) -> Cut | Misfit:
        """Cut a scale the way its weight is cut."""
        row, tensor = claim.row, claim.tensor
        weight = self.assigned.weights.get(claim.module)
        if weight is None:
            return Misfit("is a scale without a weight", "the checkpoint is incomplete", "scale")
        misfit = scale_misfit(weight, tensor, self.terms.block)
        if misfit is not None:
            return misfit
        whole = weight_cut(_length(weight, axis) // row.parts, row, ways, words, self.terms)
        if isinstance(whole, Misfit):
            return TOLD
        if len(tensor.shape) == 1 and axis == "columns":
            return cut(tensor.rows, tensor.rows)
        block = None if self.terms.block is None else self.terms.block[axis == "columns"]
        return follow(whole, _length(tensor, axis) // row.parts, block, axis, ways)

    def _joined(self, members: list[Claim], ways: int, words: str) -> Lane | Wrong:
        """Cut the rows of all members as if they were one tensor."""
        row, first = members[0].row, members[0].tensor.name
        block = self.terms.block
        for claim in members:
            weight = self.assigned.weights.get(claim.module, claim.tensor)
            if claim.kind in SCALES and (misfit := scale_misfit(weight, claim.tensor, block)) is not None:
                return claim.tensor.name, misfit
            if block is not None and weight.rows % block[0]:
                reason = f"{weight.rows} rows, joined before they are cut, end inside a block of {block[0]}"
                return claim.tensor.name, Misfit(reason, f"try --class {row.cls}=whole", "block")
        total = sum(self.assigned.weights.get(claim.module, claim.tensor).rows for claim in members)
        whole = weight_cut(total, row, ways, words, self.terms)
        if isinstance(whole, Misfit):
            return first, whole
        rows = sum(claim.tensor.rows for claim in members)
        own = follow(whole, rows, block[0] if block is not None else None, "rows", ways)
        if isinstance(own, Misfit):
            return first, own
        return Lane(tuple(View(claim.tensor, 0, claim.tensor.rows) for claim in members), columns=False, cut=own)

    def _parameters(self, key: Key, first: Claim, stacks: list[tuple[Lane, ...]]) -> list[Parameter]:
        ways, _ = self._rule(first.row.cls)
        shape, dtype = shape_of(stacks[0]), first.tensor.dtype
        if first.row.cls != EXPERTS:
            return [Parameter(key.name, dtype, shape, first.row.cls, ways, tuple(stacks))]
        if not self.stacked:
            return [Parameter(key.name, dtype, shape, EXPERTS, 1, (stack,)) for stack in stacks]
        held = placement(self.sizes, first.layer or 0, self.experts)
        return [Parameter(key.name, dtype, (len(held.groups[0]), *shape), EXPERTS, ways, tuple(stacks), held)]


def _length(tensor: Tensor, axis: str) -> int:
    if axis == "rows":
        return tensor.rows
    return tensor.shape[1] if len(tensor.shape) > 1 else 1


def _by_columns(claim: Claim) -> bool:
    return claim.row.axis == "columns" and len(claim.tensor.shape) > 1


def shape_of(stack: tuple[Lane, ...]) -> tuple[int, ...]:
    """Give the shape that lanes after each other make."""
    tensor = stack[0].views[0].tensor
    if stack[0].columns:
        return (stack[0].views[0].rows, stack[0].cut.step, *tensor.shape[2:])
    return (sum(lane.cut.step for lane in stack), *tensor.shape[1:]) if tensor.shape else ()


def _uneven(stacks: list[tuple[Lane, ...]]) -> list[Wrong]:
    """Find experts of another shape than the first."""
    shape = shape_of(stacks[0])
    return [
        (
            stack[0].views[0].tensor.name,
            Misfit(f"is cut to {list(shape_of(stack))}, other experts to {list(shape)}", _DAMAGED, "shape"),
        )
        for stack in stacks
        if shape_of(stack) != shape
    ]


def _unequal(members: list[Claim]) -> list[Wrong]:
    """Find members that cannot become one tensor: other types, or rows of another length."""
    first = members[0].tensor
    wrong: list[Wrong] = []
    for claim in members[1:]:
        tensor = claim.tensor
        if (tensor.dtype, tensor.shape[1:]) != (first.dtype, first.shape[1:]):
            reason = f"{_form(tensor)} cannot be joined to {first.name}, {_form(first)}"
            wrong.append((tensor.name, Misfit(reason, _DAMAGED, "shape")))
    return wrong


def _form(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
