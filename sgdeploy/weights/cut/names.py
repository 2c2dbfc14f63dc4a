"""Which row of a family a tensor belongs to: by the words of its name, so that each form is looked up once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sgdeploy.weights.cut.model import Tensor
from sgdeploy.weights.cut.schema import KIND, Row

WEIGHT, BIAS, OFFSET = "weight", "bias", "weight_offset"
SCALES = frozenset({"weight_scale", "weight_scale_inv"})

_DIGITS = re.compile(r"([0-9]+)")
_BETWEEN = re.compile(r"\.([0-9]+)(?=\.)")
_NUMBER = re.compile(r"(?<=\.)[0-9]+(?=\.)")

_ENDINGS = (
    (".weight_scale_inv", "weight_scale_inv"),
    (".weight_scale", "weight_scale"),
    (".weight.scale", "weight_scale"),
    (".weight_offset", OFFSET),
    (".scale", "weight_scale"),
    (".weight", WEIGHT),
    (".bias", BIAS),
    ("", WEIGHT),
)
"""How checkpoints spell what belongs to a linear layer → how the runtime does. The bare name and the two spellings
with a dot are GLM-5's."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A tensor with the row that claims it.

    Attributes:
        tensor: of the checkpoint.
        row: what it is.
        kind: ``weight`` or what goes with it.
        layer: its number; None outside of layers.
        expert: its number; None outside of experts.
        module: name of what it belongs to: all of one linear layer share it.
    """

    tensor: Tensor
    row: Row
    kind: str
    layer: int | None
    expert: int | None
    module: str

    def named(self, pattern: str) -> str:
        """Fill in a name pattern of the row."""
        return pattern.format(layer=self.layer, expert=self.expert, kind=self.kind)


class Names:
    """The rows of one model, looked up by name."""

    def __init__(self, rows: Iterable[Row], config: Mapping[str, Any]) -> None:
        """Keep the rows whose condition the configuration meets."""
        self._rows: dict[str, Row] = {}
        for row in rows:
            if row.when is None or holds(row.when, config):
                self._rows.setdefault(row.tensor.format(layer="*", expert="*", kind=KIND), row)
        self._known: dict[tuple[str, ...], tuple[Row, str, str] | None] = {}

    def find(self, tensor: Tensor) -> Claim | None:
        """Give the claim on a tensor, None where no row has its name."""
        parts = _BETWEEN.split(tensor.name)
        words = tuple(parts[::2])
        if words not in self._known:
            self._known[words] = self._look_up(form_of(tensor.name))
        found = self._known[words]
        if found is None:
            return None
        row, kind, ending = found
        layer = int(parts[1]) if "{layer}" in row.tensor else None
        expert = int(parts[-2]) if "{expert}" in row.tensor else None
        return Claim(tensor, row, kind, layer, expert, tensor.name.removesuffix(ending))

    def _look_up(self, form: str) -> tuple[Row, str, str] | None:
        if form in self._rows:
            return self._rows[form], WEIGHT, ""
        for ending, kind in _ENDINGS:
            row = self._rows.get(f"{form.removesuffix(ending)}.{KIND}") if form.endswith(ending) else None
            if row is not None:
                return row, kind, ending
        return None


def form_of(name: str) -> str:
    """Give the form of a name: what it is without its numbers, ``model.layers.*.mlp.gate_proj.weight``."""
    return _NUMBER.sub("*", name)


def in_words(name: str) -> list[str | int]:
    """Give a name in parts that sort as people read: layer 2 before layer 10."""
    return [int(part) if part.isdigit() else part for part in _DIGITS.split(name)]


def first_of(names: Collection[str]) -> str:
    """Name the first, numbers taken as numbers, and how many more there are: ``NAME (and 4 more)``."""
    return min(names, key=in_words) + (f" (and {len(names) - 1} more)" if len(names) > 1 else "")


def holds(condition: str, config: Mapping[str, Any]) -> bool:
    """Tell whether a row's condition is met: the key is there and not null, false or 0; ``not`` turns it round."""
    key = condition.removeprefix("not ")
    return bool(config.get(key)) != condition.startswith("not ")
