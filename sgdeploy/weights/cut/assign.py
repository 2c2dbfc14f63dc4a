"""Where every tensor of the checkpoint goes: into which parameter of which stage, or nowhere and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from sgdeploy.problems import Problem
from sgdeploy.weights.cut.model import Checkpoint, Dropped, Tensor
from sgdeploy.weights.cut.names import OFFSET, WEIGHT, Claim, Names, first_of, form_of, holds
from sgdeploy.weights.cut.schema import Family, Layout

Mtp: TypeAlias = Literal["separate", "drop", "inline"]
TIED = "tie_word_embeddings"


class Key(NamedTuple):
    """A parameter: in the draft model or not, of which stage, and its name."""

    draft: bool
    stage: int
    name: str


@dataclass
class Assigned:
    """Who goes where.

    Attributes:
        members: parameter → the claims that it is made of.
        dropped: what goes nowhere.
        weights: module → its weight, for the scales that follow it.
        kinds: module → kinds that it has.
    """

    members: dict[Key, list[Claim]] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    kinds: dict[str, set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Depth:
    """The layers of a model: those of each stage, and how many layers of multi-token prediction follow."""

    stages: tuple[range, ...]
    drafts: int

    @property
    def layers(self) -> int:
        """Layers without those of multi-token prediction."""
        return self.stages[-1].stop

    @cached_property
    def stage(self) -> Mapping[int, int]:
        """Layer → its stage."""
        return {layer: number for number, layers in enumerate(self.stages) for layer in layers}


class Assigner:
    """Finds the place of each tensor."""

    def __init__(self, family: Family, names: Names, depth: Depth, mtp: Mtp, layout: Layout) -> None:
        """Keep the rules; ``mtp`` says what becomes of the layers of multi-token prediction."""
        self._family = family
        self._names = names
        self._depth = depth
        self._mtp = mtp
        self._layout: Layout = layout
        self._named: dict[tuple[str, str, int | None], str] = {}

    def assign(self, checkpoint: Checkpoint) -> tuple[Assigned, list[Problem]]:
        """Assign every tensor; those without a row are problems, one for each form of name."""
        assigned = Assigned()
        unknown: list[str] = []
        fallback: dict[Key, list[Claim]] = {}
        for tensor in checkpoint.tensors.values():
            claim = self._names.find(tensor)
            if claim is None or not self._fits(claim):
                unknown.append(tensor.name)
                continue
            reason = self._dropped(claim)
            if reason is not None:
                assigned.dropped.append(Dropped(tensor, reason, zero=claim.kind == OFFSET))
                continue
            if claim.kind == WEIGHT:
                assigned.weights[claim.module] = tensor
            assigned.kinds.setdefault(claim.module, set()).add(claim.kind)
            for key, spare in self._keys(claim, checkpoint.config):
                (fallback if spare else assigned.members).setdefault(key, []).append(claim)
        self._fill_in(assigned, fallback)
        return assigned, _unknown(unknown)

    def _is_draft(self, claim: Claim) -> bool:
        return claim.layer is not None and claim.layer >= self._depth.layers

    def _fits(self, claim: Claim) -> bool:
        """Tell whether a row's reach covers the layer: none beyond the last, and draft rows in draft layers only."""
        if claim.layer is None:
            return True
        if claim.layer >= self._depth.layers + self._depth.drafts:
            return False
        return claim.row.only is None or self._is_draft(claim)

    def _dropped(self, claim: Claim) -> str | None:
        if claim.row.drop is not None:
            return claim.row.drop
        if self._is_draft(claim) and self._mtp == "drop":
            return "multi-token prediction is left out (--mtp drop)"
        return "weight_offset of symmetric quantisation" if claim.kind == OFFSET else None

    def _keys(self, claim: Claim, config: Mapping[str, Any]) -> Iterator[tuple[Key, bool]]:
        """Give the parameters that a tensor goes into; True marks one that a draft layer's own tensor may take over."""
        row = claim.row
        name = self._parameter(claim)
        last = len(self._depth.stages) - 1
        if self._is_draft(claim):
            separate = self._mtp == "separate"
            yield Key(separate, last, self._draft_name(claim, name) if separate else name), False
            return
        if claim.layer is not None:
            yield Key(draft=False, stage=self._depth.stage[claim.layer], name=name), False
        elif row.tied is not None and holds(TIED, config):
            yield Key(draft=False, stage=last, name=claim.named(row.tied)), False
            if last > 0:
                yield Key(draft=False, stage=0, name=name), False
        else:
            yield Key(draft=False, stage=0 if row.stage == "first" else last, name=name), False
        if row.draft and claim.layer is None and self._depth.drafts and self._mtp == "separate":
            yield Key(draft=True, stage=last, name=self._draft_name(claim, name)), True

    def _parameter(self, claim: Claim) -> str:
        """Name the parameter; that of all experts of a layer is one."""
        pattern = claim.row.into or claim.row.tensor
        key = (pattern, claim.kind, claim.layer)
        if key not in self._named:
            self._named[key] = claim.named(pattern)
        return self._named[key]

    def _draft_name(self, claim: Claim, name: str) -> str:
        pattern = claim.row.draft.get(self._layout) or claim.row.draft.get("*")
        if pattern == "same":
            return name
        if pattern is not None:
            return claim.named(pattern)
        return self._family.draft_prefix + name.removeprefix(f"model.layers.{claim.layer}.")

    @staticmethod
    def _fill_in(assigned: Assigned, fallback: Mapping[Key, list[Claim]]) -> None:
        """Give a draft model what it shares with the main one, where there is one and its layer has none itself."""
        if any(key.draft for key in assigned.members):
            for key, claims in fallback.items():
                assigned.members.setdefault(key, claims)


def _unknown(names: Sequence[str]) -> list[Problem]:
    forms: dict[str, list[str]] = {}
    for name in names:
        forms.setdefault(form_of(name), []).append(name)
    hint = "a scheme file with a row for it says how it is cut, or `drop`s it: docs/split-weights.md"
    return [Problem(f"no rule for {first_of(found)}", hint, code="unknown") for found in forms.values()]
