"""Is the checkpoint whole? Scales that are missing, and layers that lack what their likes have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.assign import Assigned, Depth
from sgdeploy.weights.cut.model import QUANTISED
from sgdeploy.weights.cut.names import SCALES, Claim, first_of, form_of


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
    claims: dict[int, list[Claim]] = {}
    for members in assigned.members.values():
        for claim in members:
            if claim.layer is not None and claim.layer < depth.layers:
                claims.setdefault(claim.layer, []).append(claim)
    missing = [layer for layer in range(depth.layers) if layer not in claims]
    if missing:
        numbers = ", ".join(map(str, missing[:8])) + (" …" if missing[8:] else "")
        message = f"no tensor of layer {numbers} is in any shard; config.json says num_hidden_layers {depth.layers}"
        yield Problem(message, "the checkpoint is incomplete", code="layers")
    by_kind: dict[bool, dict[int, frozenset[str]]] = {}
    for layer, found in claims.items():
        forms = _forms(found)
        by_kind.setdefault(any("experts." in form for form in forms), {})[layer] = forms
    for alike in by_kind.values():
        yield from _lacking(alike)


def _forms(claims: Sequence[Claim]) -> frozenset[str]:
    """Give what a layer must have if its likes do: names without numbers, and without what is optional."""
    return frozenset(form_of(claim.tensor.name) for claim in claims if not claim.row.optional)


def _lacking(alike: Mapping[int, frozenset[str]]) -> Iterator[Problem]:
    counts = Counter(form for forms in alike.values() for form in forms)
    for form, count in counts.items():
        lacking = [layer for layer, forms in alike.items() if form not in forms]
        if lacking and count > len(lacking):
            names = [form.replace("*", str(layer), 1) for layer in lacking]
            message = f"{first_of(names)} is in no shard, but {count} other layers have theirs"
            yield Problem(message, "the checkpoint is incomplete", code="layer-incomplete")
