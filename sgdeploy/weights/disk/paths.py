"""What is wrong with a target's path, whatever lies there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sgdeploy.problems import Problem


def check_paths(model: Path, target: Path) -> Iterator[Problem]:
    """Find targets that a runtime cannot read, or that lie in the checkpoint."""
    odd = next((mark for mark in "[]*?" if mark in str(target.absolute())), None)
    if odd is not None:
        message = f"the path {target} contains '{odd}': SGLang passes it to glob and will not find the files"
        yield Problem(message, "choose another name", code="target")
    if not str(target).isprintable():
        message = f"the path {str(target)!r} holds characters that no manifest can name"
        yield Problem(message, "choose another name", code="target")
    try:
        real, source = target.resolve(), model.resolve()
        blocked = target.exists() and not target.is_dir()
    except OSError as error:
        yield Problem(f"{target}: {error.strerror}", "choose another --out", code="target")
        return
    if real == source:
        yield Problem("the output is the model directory itself", "choose another --out", code="target")
    elif source in real.parents:
        yield Problem(f"output lies inside the model directory {model}", "choose another --out", code="target")
    if blocked:
        yield Problem(f"{target} is no folder", "choose another --out", code="target")
