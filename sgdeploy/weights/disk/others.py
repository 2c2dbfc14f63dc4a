"""The files beside the weights: those that a runtime reads go along, nothing else does."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from sgdeploy.weights.worker.headers import CONFIG

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


def sorted_out(others: Iterable[tuple[str, bool]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part what lies beside the weights into what goes along (config.json first) and what stays behind.

    Args:
        others: names, and whether each is a file.
    """
    along: list[str] = [CONFIG]
    behind: list[str] = []
    for name, is_file in others:
        wanted = any(fnmatchcase(name, pattern) for pattern in _ALONG)
        refused = any(fnmatchcase(name, pattern) for pattern in _BEHIND)
        (along if wanted and not refused and is_file else behind).append(name)
    return tuple(along), tuple(behind)
