"""The files beside the weights: those that a runtime reads go along, nothing else does."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from sgdeploy.weights.disk.checkpoint import CONFIG

_ALONG = (
    "*.json",
    "tokenizer*",
    "*.model",
    "*.tiktoken",
    "*.py",
    "*.jinja",
    "vocab*",
    "merges*",
    "LICENSE*",
)
_BEHIND = ("*.index.json", "quant_model_description*", "sgdeploy-split*", ".*", "*.safetensors")


def sorted_out(folder: Path, names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part the names beside the weights into those that go along (config.json first) and those that stay behind."""
    along: list[str] = [CONFIG]
    behind: list[str] = []
    for name in names:
        wanted = any(fnmatchcase(name, pattern) for pattern in _ALONG)
        refused = any(fnmatchcase(name, pattern) for pattern in _BEHIND)
        (along if wanted and not refused and (folder / name).is_file() else behind).append(name)
    return tuple(along), tuple(behind)
