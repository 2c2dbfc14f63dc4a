"""Does each process find its weights? A path may differ by pipeline stage, and a process has one path alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sgdeploy.plan.layout import STAGE
from sgdeploy.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sgdeploy.plan.layout import Layout

_PLACEHOLDER = re.compile(r"\{\w*\}")


def check_model(layout: Layout) -> Iterator[Problem]:
    """Find placeholders that are none, and processes that hold several stages where each has a folder of its own."""
    for word in dict.fromkeys(_PLACEHOLDER.findall(layout.model)):
        if word != STAGE:
            message = f"{word} in a model path stands for nothing"
            yield Problem(message, f"{STAGE} is the pipeline stage", layout.model_key, code="model-placeholder")
    shape = layout.shape
    divides = shape.ranks % shape.nodes == 0
    several = shape.stages_of(0, None)
    if STAGE in layout.model and not shape.by_rank and divides and len(several) > 1:
        message = (
            f"the process of each node holds {len(several)} pipeline stages "
            f"({shape.pp} stages over {shape.nodes} nodes), and {STAGE} in its model path can be only one of them"
        )
        hint = "give every stage nodes of its own, or `engine.launch: rank`"
        yield Problem(message, hint, layout.model_key, code="model-stages")
