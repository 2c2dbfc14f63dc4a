"""All platforms by the word that a profile uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError, create_model

from sgdeploy.platforms.base import Platform
from sgdeploy.platforms.cpu import Cpu, CpuSettings
from sgdeploy.platforms.kunpeng_920f import Kunpeng920F, KunpengSettings
from sgdeploy.problems import Problem
from sgdeploy.profile.messages import schema_problems
from sgdeploy.profile.parts import Section

SETTINGS_KEY = "platform_settings"
"""The key of a profile that holds a platform's settings."""


@dataclass(frozen=True)
class PlatformKind:
    """One hardware kind before its settings are known.

    Attributes:
        name: the word in a profile.
        settings_model: what ``platform_settings`` may hold.
        build: makes the platform out of validated settings.
    """

    name: str
    settings_model: type[Section]
    build: Callable[[Any], Platform]

    def configure(self, settings: Mapping[str, Any]) -> tuple[Platform | None, tuple[Problem, ...]]:
        """Check the settings and give the platform with them; None and the problems where they are wrong."""
        whole = _whole(self.settings_model)
        tree = {SETTINGS_KEY: dict(settings)}
        try:
            valid = whole.model_validate(tree)
        except ValidationError as error:
            return None, tuple(schema_problems(error, whole, tree))
        return self.build(getattr(valid, SETTINGS_KEY)), ()


@lru_cache(maxsize=8)
def _whole(settings_model: type[Section]) -> type[Section]:
    """Give the schema of a tree that holds these settings alone, so that problems have their path in a profile."""
    return create_model("Settings", __base__=Section, platform_settings=(settings_model, ...))


def kinds() -> tuple[str, ...]:
    """Give the names of all platforms."""
    return tuple(_table())


def platform(kind: str) -> PlatformKind:
    """Find a platform.

    Raises:
        KeyError: no such platform (``kinds`` lists them).
    """
    return _table()[kind]


def _table() -> dict[str, PlatformKind]:
    known = (
        PlatformKind(Kunpeng920F.kind, KunpengSettings, Kunpeng920F),
        PlatformKind(Cpu.kind, CpuSettings, Cpu),
    )
    return {kind.name: kind for kind in known}
