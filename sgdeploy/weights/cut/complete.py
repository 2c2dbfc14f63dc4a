"""Is the checkpoint whole? Scales that are missing, and layers that lack what their likes have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.assign import Assigned, Depth
from sgdeploy.weights.cut.model import QUANTISED
from sgdeploy.weights.cut.names import SCALES, first_of

_Form = tuple[str, str]
"""A row's name pattern, and the kind of what it stands for."""


def check_scales(assigned: Assigned) -> Iterator[Problem]:
    """Find weights of a quantised type without a scale."""
    need = {module: tensor for module, tensor in assigned.weights.items() if tensor.dtype in QUANTISED}
    bare = [tensor.name for module, tensor in need.items() if not assigned.kinds[module] & SCALES]
    if not bare:
        return
    message = (
        f"{first_of(bare)} has no weight_scale in any shard (checkpoint looks half quantised: "
        f"{len(need) - len(bare)} of {len(need)} linear weights have scales)"
    )
    hint = (
        "copy the checkpoint again, or quantise all of it" if len(need) > len(bare) else "these are no usable weights"
    )
    yield Problem(message, hint, code="scale-missing")


def check_layers(assigned: Assigned, depth: Depth) -> Iterator[Problem]:
    """Find layers that are missing, and tensors that a layer lacks while most others of its kind have them."""
    claims: dict[int, set[_Form]] = {}
    for members in assigned.members.values():
        for claim in members:
            if claim.layer is not None and claim.layer < depth.layers:
                there = claims.setdefault(claim.layer, set())
                if not claim.row.optional:
                    there.add((claim.row.tensor, claim.kind))
    missing = [layer for layer in range(depth.layers) if layer not in claims]
    if missing:
        numbers = ", ".join(map(str, missing[:8])) + (" …" if missing[8:] else "")
        message = f"no tensor of layer {numbers} is in any shard; config.json says num_hidden_layers {depth.layers}"
        yield Problem(message, "the checkpoint is incomplete", code="layers")
    by_kind: dict[bool, dict[int, set[_Form]]] = {}
    for layer, forms in claims.items():
        by_kind.setdefault(any("{expert}" in pattern for pattern, _ in forms), {})[layer] = forms
    for alike in by_kind.values():
        yield from _lacking(alike)


def _lacking(alike: Mapping[int, set[_Form]]) -> Iterator[Problem]:
    counts = Counter(form for forms in alike.values() for form in forms)
    for (pattern, kind), count in counts.items():
        lacking = [layer for layer, forms in alike.items() if (pattern, kind) not in forms]
        if lacking and count > len(lacking):
            names = [pattern.format(layer=layer, expert=0, kind=kind) for layer in lacking]
            message = f"{first_of(names)} is in no shard, but {count} other layers have theirs"
            yield Problem(message, "the checkpoint is incomplete", code="layer-incomplete")
