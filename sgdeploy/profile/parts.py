"""Parts that the schemas of profiles and inventories share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag


class Section(BaseModel):
    """Base of all sections: frozen, unknown keys refused, no guessing between types (``"16"`` is no number)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    reader_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys that may stand here as well and are taken out before validation."""


class Hosts(Section):
    """Hosts from a file: one host per line, ``#`` starts a comment."""

    file: Annotated[str, Field(min_length=1, description="Path, relative to the file that names it.")]


def shape(value: Any) -> str | None:
    """Tell which alternative of a union a value is meant to be, by its form alone."""
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, (list, tuple)):
        return "<list>"
    return "<mapping>" if isinstance(value, (dict, BaseModel)) else None


def by_shape(message: str) -> Discriminator:
    """Make a union choose by form, so that a mistake gives one message and not one per alternative."""
    return Discriminator(shape, custom_error_type="shape", custom_error_message=message)


HostSpec = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[str], Tag("<list>")] | Annotated[Hosts, Tag("<mapping>")],
    by_shape("must be a group, a host, a range, a list of those, or {file: PATH}"),
]
"""A group, a host name, either range notation, a list of those, or ``{file: hosts.txt}``."""
