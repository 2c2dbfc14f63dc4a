"""What a split says of itself: a head, small enough to be looked at by every preflight, and the list of files.

Both are written by ``sgdeploy.weights.worker.sign``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sgdeploy.weights.worker.job import FILES, HEAD

__all__ = ["FILES", "HEAD", "Entry", "Head", "RankFile", "Source", "read_files", "read_head"]


class Entry(BaseModel):
    """A file of a split: its size, the SHA-256 of its bytes (null where hashing was off), a stamp of its source."""

    model_config = ConfigDict(frozen=True)

    size: Annotated[int, Field(ge=0)]
    sha256: str | None = None
    source: str | None = None


class Source(BaseModel):
    """A shard of the checkpoint that was split: name, size, SHA-256 of its header."""

    model_config = ConfigDict(frozen=True)

    name: str
    size: int
    header: str


class RankFile(BaseModel):
    """Files of a folder that ranks load: ``{rank}`` in the name is the rank in its stage modulo ``count``."""

    model_config = ConfigDict(frozen=True)

    name: str
    count: Annotated[int, Field(ge=1)]
    size: Annotated[int, Field(ge=0)]


class Head(BaseModel):
    """The head. Unknown fields are passed over, so that older readers understand newer splits.

    Attributes:
        version: of this form.
        tool: what wrote it.
        plan: digest of the split's plan.
        scheme: whose layout rules were applied.
        layout: of the files, which is also the load format.
        tp, dp, ep, pp: sizes that it is for; dp counts attention groups.
        redundant_experts: physical experts beyond the logical ones.
        mtp: what became of multi-token prediction.
        rules: class → rule.
        ranks: ranks whose files are here, as ``0-15``; counted over all stages.
        folder: of this head below the target ("" for the target itself).
        rank_files: what every rank loads from this folder; files of single experts are not among them.
        arguments: of the command that wrote it.
        sources: the checkpoint's shards.
        files: how many files there are.
        size: their bytes.
        digest: SHA-256 of the list of files.
    """

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    tool: str = ""
    plan: str
    scheme: str
    layout: str
    tp: int
    dp: int
    ep: int
    pp: int
    redundant_experts: int = 0
    mtp: str = "separate"
    rules: Mapping[str, str] = Field(default_factory=dict)
    ranks: str
    folder: str = ""
    rank_files: tuple[RankFile, ...] = ()
    arguments: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    files: int
    size: int
    digest: str


def read_head(text: str) -> Head | str:
    """Read a head, or say what is wrong with it."""
    try:
        return Head.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else first["msg"]


def read_files(text: str, digest: str) -> dict[str, Entry] | str:
    """Read a list of files and hold it against the digest that its head gives."""
    found = hashlib.sha256(text.encode()).hexdigest()
    if found != digest:
        return f"its SHA-256 is {found}, {HEAD} says {digest}"
    try:
        entries: Any = json.loads(text)
        return {str(path): Entry.model_validate(entry) for path, entry in entries.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        return f"it is damaged: {error}"
