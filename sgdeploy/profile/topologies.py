"""The topologies, as a union over ``topology``: which roles each has, and where their instances stand in a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field

from sgdeploy.profile.parts import Section
from sgdeploy.profile.router_schema import Router
from sgdeploy.profile.scalars import refusal
from sgdeploy.profile.schema import Instance, Instances, ProfileBase

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath

EngineRole: TypeAlias = Literal["native", "prefill", "decode"]
"""What an engine instance does."""

ENGINE_ROLES: tuple[EngineRole, ...] = ("native", "prefill", "decode")

_DECODE = "The instance that makes the tokens, or several by name."


class NativeProfile(ProfileBase):
    """``topology: native``: one instance, or a mapping of named instances; each does prefill and decode."""

    topology: Literal["native"]
    native: Annotated[Instances, Field(description="The instance, or several by name; each does prefill and decode.")]


class PdProfile(ProfileBase):
    """``topology: pd``: prefill and decode instances, each one or a mapping of named ones, and a router."""

    topology: Literal["pd"]
    prefill: Annotated[Instances, Field(description="The instance that takes prompts in, or several by name.")]
    decode: Annotated[Instances, Field(description=_DECODE)]
    router: Router


def _two(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() & Instance.model_fields.keys():
        raise refusal("must hold two instances, `short` and `long`, and is written like one", shows=False)
    return value


class TwoPrefills(Section):
    """The prefill instances of two buckets; short prompts and long ones."""

    short: Annotated[Instance, Field(description="The instance for short prompts.")]
    long: Annotated[Instance, Field(description="The instance for long prompts.")]


class TwoBucketProfile(ProfileBase):
    """``topology: two-bucket-prefill``: a prefill for short prompts and one for long ones, decode, and a router."""

    topology: Literal["two-bucket-prefill"]
    prefill: Annotated[TwoPrefills, BeforeValidator(_two)]
    decode: Annotated[Instances, Field(description=_DECODE)]
    router: Router


Profile: TypeAlias = NativeProfile | PdProfile | TwoBucketProfile
PROFILES: Mapping[str, type[Profile]] = {
    "native": NativeProfile,
    "pd": PdProfile,
    "two-bucket-prefill": TwoBucketProfile,
}
"""Every topology by its word."""

ROLE_KEYS = frozenset({*ENGINE_ROLES, "router"})
"""Keys of a profile that only some topologies have."""


class OtherProfile(ProfileBase):
    """What can be checked of a profile whose topology cannot be told: the keys that every topology has."""

    model_config = ConfigDict(extra="ignore")
    topology: Any


@dataclass(frozen=True)
class Spot:
    """Where an instance stands.

    Attributes:
        role: what it does.
        name: its name, None for the only one of its role.
        path: its key path in the profile.
    """

    role: EngineRole
    name: str | None
    path: KeyPath


def instances(profile: Profile) -> dict[Spot, Instance]:
    """Give all instances: native, or prefill and then decode; in two buckets the short one comes first."""
    found: dict[Spot, Instance] = {}
    for role in ENGINE_ROLES:
        section = getattr(profile, role, None)
        if isinstance(section, Instance):
            found[Spot(role, None, (role,))] = section
        elif isinstance(section, TwoPrefills):
            found |= {Spot(role, name, (role, name)): getattr(section, name) for name in ("short", "long")}
        elif section is not None:
            found |= {Spot(role, name, (role, name)): one for name, one in section.items()}
    return found


def written(tree: Mapping[str, Any]) -> Iterator[tuple[Spot, Mapping[str, Any]]]:
    """Give what a tree means as an instance, whatever else is wrong with it and whatever its topology."""
    for role in ENGINE_ROLES:
        section = tree.get(role)
        if not isinstance(section, Mapping):
            continue
        if section.keys() & Instance.model_fields.keys():
            yield Spot(role, None, (role,)), section
        else:
            for name, one in section.items():
                if isinstance(one, Mapping):
                    yield Spot(role, str(name), (role, name)), one


def likely(tree: Mapping[str, Any]) -> str | None:
    """Guess the topology that a tree means from the roles in it; None where nothing tells."""
    if "native" in tree:
        return "native"
    prefill = tree.get("prefill")
    if isinstance(prefill, Mapping) and prefill.keys() == TwoPrefills.model_fields.keys():
        return "two-bucket-prefill"
    return "pd" if tree.keys() & ROLE_KEYS else None
