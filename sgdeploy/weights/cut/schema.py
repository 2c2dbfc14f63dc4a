"""The data files: families say what a checkpoint's tensors are, schemes say how a runtime wants them cut."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sgdeploy.profile.scalars import refusal

Layout: TypeAlias = Literal["sharded_state", "kunpeng_state"]
Condition: TypeAlias = Annotated[str, Field(pattern=r"^(not )?[a-z][a-z0-9_]*$")]

RULE = re.compile(r"whole|attention|global|socket:[1-9][0-9]*")
"""How a class is cut: not at all, over the attention group, over all ranks, or in N by rank modulo N."""


def _rule(text: str) -> str:
    if not RULE.fullmatch(text):
        raise refusal("must be whole, attention, global or socket:N", "socket:8 cuts in eight, by rank modulo 8")
    return text


RuleText: TypeAlias = Annotated[str, AfterValidator(_rule)]
KIND = "{kind}"
EXPERTS = "experts"
"""The class whose tensors are spread by expert; its rule follows from the sizes alone."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Row(_Data):
    """What one kind of tensor is. The first row that fits a name, and whose condition holds, counts.

    Attributes:
        tensor: its name. ``{layer}`` and ``{expert}`` stand for numbers; ``{kind}`` for ``weight`` or what goes with
            it (``weight_scale``, ``weight_scale_inv``, ``bias``).
        cls: class, which a scheme gives a rule.
        axis: what is cut: rows, columns, or null where it is never cut.
        units: key of ``config.json``: the cut axis holds so many units (heads) that must stay whole.
        member: ``1/2``: position among those that become one parameter.
        join: ``last``: each member is cut, then joined; ``first``: joined, then cut.
        parts: it holds so many matrices after each other, each to be cut on its own.
        into: name of the parameter; null for its own.
        stage: pipeline stage that has it: of its layer, the first, or the last.
        vocabulary: its rows are the vocabulary, which runtimes pad.
        tied: name of the parameter in the last stage where embeddings are tied.
        when: key of ``config.json`` that must be true (or present and not null), or ``not key``.
        only: ``draft`` for what only layers of multi-token prediction have.
        draft: layout (or ``*``) → its name in a draft model of its own; ``same`` for unchanged.
        optional: whether a layer may lack it while others have it.
        drop: it goes nowhere, for this reason.
    """

    tensor: Annotated[str, Field(min_length=1)]
    cls: Annotated[str, Field(alias="class", pattern=r"^[a-z][a-z0-9_]*$")]
    axis: Literal["rows", "columns"] | None = None
    units: str | None = None
    member: Annotated[str, Field(pattern=r"^[1-9]/[1-9]$")] = "1/1"
    join: Literal["first", "last"] = "last"
    parts: Annotated[int, Field(ge=1)] = 1
    into: str | None = None
    stage: Literal["layer", "first", "last"] = "layer"
    vocabulary: bool = False
    tied: str | None = None
    when: Condition | None = None
    only: Literal["draft"] | None = None
    draft: Mapping[Literal["*"] | Layout, str] = Field(default_factory=dict)
    optional: bool = False
    drop: str | None = None

    @property
    def position(self) -> int:
        """Place among the members, from 0."""
        return int(self.member[0]) - 1

    @property
    def members(self) -> int:
        """How many become one parameter."""
        return int(self.member[2])

    @model_validator(mode="after")
    def _holds_together(self) -> Row:
        if self.stage == "layer" and "{layer}" not in self.tensor and self.drop is None:
            raise ValueError(f"{self.tensor}: without {{layer}} it needs a stage, first or last")
        if self.position >= self.members:
            raise ValueError(f"{self.tensor}: member {self.member} is beyond its group")
        if self.cls == EXPERTS and "{expert}" not in self.tensor:
            raise ValueError(f"{self.tensor}: a tensor of class experts needs {{expert}}")
        return self


class Family(_Data):
    """Models of one shape.

    Attributes:
        architectures: as ``config.json`` names them.
        experts: key of ``config.json`` with the number of routed experts; null for dense models.
        draft_layers: key with the number of layers of multi-token prediction, which follow the others.
        draft_prefix: what ``model.layers.{layer}.`` becomes in a draft model of its own.
        rows: what its tensors are.
    """

    architectures: Annotated[tuple[str, ...], Field(min_length=1)]
    experts: str | None = None
    draft_layers: str | None = None
    draft_prefix: str = ""
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]


class SchemeFile(_Data):
    """A scheme as it is written; what is missing comes from the one that it extends.

    Attributes:
        about: what runtime it is for.
        extends: name of a shipped scheme.
        layouts: layouts of files that the runtime reads, the default first.
        experts: ``single``: each rank holds exactly one expert; ``blocks``: neighbouring ones.
        heads: what happens with fewer KV heads than ranks: ``repeat`` them, or ``pad`` all heads with zeros.
        vocabulary_padding: the runtime rounds the vocabulary up to a multiple of this.
        classes: class → rule.
        family: architecture whose family is used whatever the checkpoint calls itself.
        rows: rows that come before those of the family.
    """

    about: str = ""
    extends: str | None = None
    layouts: Annotated[tuple[Layout, ...], Field(min_length=1)] | None = None
    experts: Literal["single", "blocks"] | None = None
    heads: Literal["repeat", "pad"] | None = None
    vocabulary_padding: Annotated[int, Field(ge=1)] | None = None
    classes: Mapping[str, RuleText] = Field(default_factory=dict)
    family: str | None = None
    rows: tuple[Row, ...] = ()


class Scheme(_Data):
    """A scheme with everything filled in; the attributes mean what they do in ``SchemeFile``."""

    name: str
    about: str
    layouts: tuple[Layout, ...]
    experts: Literal["single", "blocks"]
    heads: Literal["repeat", "pad"]
    vocabulary_padding: int
    classes: Mapping[str, RuleText]
    family: str | None = None
    rows: tuple[Row, ...] = ()
