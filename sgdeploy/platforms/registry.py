"""All platforms by the word that a profile uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import ValidationError

from sgdeploy.platforms.base import Platform, Settings, settings_problems
from sgdeploy.platforms.cpu import Cpu, CpuSettings
from sgdeploy.platforms.kunpeng_920f import Kunpeng920F, KunpengSettings
from sgdeploy.problems import KeyPath, Problem

Build: TypeAlias = "Callable[[Mapping[str, Any]], Platform]"


@dataclass(frozen=True)
class PlatformKind:
    """One hardware kind before its settings are known.

    Attributes:
        name: the word in a profile.
        settings_model: what ``platform_settings`` may hold.
    """

    name: str
    settings_model: type[Settings]
    build: Build

    def configure(self, settings: Mapping[str, Any], path: KeyPath) -> tuple[Platform | None, tuple[Problem, ...]]:
        """Check the settings and give the platform with them; None where they are wrong."""
        try:
            return self.build(settings), ()
        except ValidationError as error:
            return None, settings_problems(error, self.settings_model, path)


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
        PlatformKind(Kunpeng920F.kind, KunpengSettings, lambda s: Kunpeng920F(KunpengSettings.model_validate(s))),
        PlatformKind(Cpu.kind, CpuSettings, lambda s: Cpu(CpuSettings.model_validate(s))),
    )
    return {kind.name: kind for kind in known}
