"""How one tensor is cut: its own length, heads that stay whole, padding, and scales that follow their weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sgdeploy.weights.cut.model import Cut, Tensor
from sgdeploy.weights.cut.schema import Row
from sgdeploy.weights.cut.sizes import fitting

HEADS, KV_HEADS = "num_attention_heads", "num_key_value_heads"


@dataclass(frozen=True)
class Misfit:
    """Why a tensor cannot be cut as it should be.

    Attributes:
        reason: goes on after the tensor's name, with the numbers.
        hint: the next step.
        code: short stable name.
    """

    reason: str
    hint: str | None
    code: str


TOLD = Misfit("", None, "told")
"""What stands in the way of a scale whose weight cannot be cut: the weight's own misfit says it."""


@dataclass(frozen=True)
class Terms:
    """What the cuts of a model depend on beside their rows.

    Attributes:
        config: ``config.json``.
        heads: ``repeat`` KV heads that are too few, or ``pad`` all heads.
        vocabulary_padding: the runtime rounds the vocabulary up to a multiple of this.
        pad_vocabulary: whether missing rows of the vocabulary may become zeros.
        block: rows and columns that share one scale; None where scales are per channel.
    """

    config: Mapping[str, Any]
    heads: str
    vocabulary_padding: int
    pad_vocabulary: bool
    block: tuple[int, int] | None

    def count(self, key: str) -> int | None:
        """Give a number of the configuration; KV heads are as many as heads where it is silent."""
        value = self.config.get(key)
        if value is None and key == KV_HEADS:
            value = self.config.get(HEADS)
        return value if type(value) is int and value > 0 else None


@lru_cache
def cut(length: int, step: int, copies: int = 1) -> Cut:
    """Make a cut; equal ones are one object, since a big model has a hundred thousand of them."""
    return Cut(length, step, copies)


def weight_cut(length: int, row: Row, ways: int, words: str, terms: Terms) -> Cut | Misfit:
    """Cut a length.

    Args:
        length: rows or columns.
        row: what the tensor is.
        ways: into how many.
        words: what it is cut over, for messages: ``attention TP 16``.
        terms: of the model.
    """
    if row.vocabulary:
        return _vocabulary(length, ways, terms)
    if ways == 1 or row.axis is None:
        return cut(length, length)
    if row.units is not None:
        return _units(length, row, ways, words, terms)
    if length % ways:
        reason = f"{length} {row.axis} do not divide by {words}"
        return Misfit(reason, f"TP sizes that fit: {fitting(length, ways)}", "does-not-divide")
    return cut(length, length // ways)


def padded_vocabulary(length: int, ways: int, multiple: int) -> int:
    """Give the vocabulary that SGLang allocates: a multiple of 64, or of 64 times the ranks where that does not divide.

    Source: shapes of embeddings in models that SGLang 0.5.23 builds.
    """
    padded = -(-length // multiple) * multiple
    return padded if padded % ways == 0 else -(-length // (multiple * ways)) * multiple * ways


def _vocabulary(length: int, ways: int, terms: Terms) -> Cut | Misfit:
    padded = padded_vocabulary(length, ways, terms.vocabulary_padding)
    step = padded // ways
    if padded != length and not terms.pad_vocabulary:
        rank, rows = divmod(length, step)
        reason = f"vocabulary {length} is padded to {padded} by SGLang; rank {rank} would get {rows} of {step} rows"
        return Misfit(reason, "pass --pad-vocab zeros", "vocabulary")
    return cut(length, step)


def _units(length: int, row: Row, ways: int, words: str, terms: Terms) -> Cut | Misfit:
    key = row.units or HEADS
    units, kv = terms.count(key), terms.count(KV_HEADS)
    if units is None or kv is None:
        return Misfit(f"config.json has no number for {key}", "complete config.json", "config")
    if length % units:
        reason = f"{length} {row.axis} are no whole number for each of {units} ({key} in config.json)"
        return Misfit(reason, "config.json and the weights do not belong together", "shape")
    one = length // units
    if terms.heads == "pad" and kv % ways:
        most = -(-kv // ways) * units // kv
        return cut(length, most * one)
    if key == KV_HEADS and units < ways and ways % units == 0:
        return cut(length, one, ways // units)
    if units % ways:
        reason = f"{length} {row.axis} ({units} heads) do not divide by {words}"
        return Misfit(reason, f"TP sizes that fit: {fitting(units, ways)}", "does-not-divide")
    return cut(length, length // ways)


def follow(whole: Cut, length: int, block: int | None, axis: str, ways: int) -> Cut | Misfit:
    """Cut a scale the way its weight is cut.

    Args:
        whole: the cut of the weight.
        length: of the scale along the same axis.
        block: rows or columns of the weight that share one scale, None for one scale each.
        axis: ``rows`` or ``columns``, for messages.
        ways: into how many the weight is cut.
    """
    if length == whole.length:
        return whole
    if length == 1 and block is None:
        return cut(1, 1, ways)
    if block is None or length != -(-whole.length // block):
        expected = whole.length if block is None else -(-whole.length // block)
        return Misfit(f"has {length} {axis} of scales where its weight needs {expected}", None, "scale-shape")
    if ways == 1:
        return cut(length, length)
    if whole.step % block:
        reason = f"a cut of {whole.step} {axis} is no whole number of blocks of {block} that share a scale"
        fits = fitting(whole.length // block, ways) if whole.length % block == 0 else "1"
        return Misfit(reason, f"TP sizes that fit: {fits}", "block")
    return cut(length, whole.step // block, whole.copies)


def scale_misfit(weight: Tensor, scale: Tensor, block: tuple[int, int] | None) -> Misfit | None:
    """Hold the shape of a scale against its weight: one per row, or one per block."""
    rows, columns = weight.rows, weight.shape[1] if len(weight.shape) > 1 else 1
    fits: list[tuple[int, ...]] = [(rows, 1), (rows,)]
    if block is not None:
        fits = [(-(-rows // block[0]), -(-columns // block[1]))]
    if scale.shape in fits:
        return None
    what = f"one per {block[0]} x {block[1]} block" if block is not None else "one per row"
    reason = f"has shape {list(scale.shape)}, its weight {list(weight.shape)} needs {list(fits[0])} ({what})"
    return Misfit(reason, "the checkpoint is damaged, or quantised in a way that is not known here", "scale-shape")
