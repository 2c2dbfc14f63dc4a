"""Scalar types of a profile: durations, ports, names, secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import Field


@dataclass(frozen=True)
class Secret:
    """``${env:NAME}``: a value that is named here and read only by the thin edges, at the last moment.

    Attributes:
        name: the controller's environment variable.
    """

    name: str


Duration: TypeAlias = "Annotated[float, Field(gt=0)]"
Port: TypeAlias = "Annotated[int, Field(ge=1, le=65535)]"
Name: TypeAlias = 'Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]'
EnvName: TypeAlias = 'Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]'
