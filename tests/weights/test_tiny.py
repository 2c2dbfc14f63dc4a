"""The checkpoints of these tests are those that the reference results were made of."""

from __future__ import annotations

import pytest

from tests.weights.tiny import values


@pytest.mark.parametrize(
    ("name", "dtype", "first"),
    [
        ("lm_head.weight", "BF16", "b93cfbbf4b3e05bf"),
        ("model.layers.0.self_attn.q_a_proj.weight_scale", "F32", "00114c3d0040663c"),
        ("model.layers.0.self_attn.q_a_proj.weight", "I8", "bddb77a9"),
    ],
)
def test_values_follow_from_names(name: str, dtype: str, first: str) -> None:
    assert values(name, dtype, (4,)).hex().startswith(first)
