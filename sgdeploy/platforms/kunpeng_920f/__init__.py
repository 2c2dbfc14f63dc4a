"""Platform ``kunpeng-920f``: one rank per compute NUMA node, weights in on-package memory (docs/platforms)."""

from __future__ import annotations

from sgdeploy.platforms.kunpeng_920f.platform import Kunpeng920F
from sgdeploy.platforms.kunpeng_920f.settings import KunpengSettings

__all__ = ["Kunpeng920F", "KunpengSettings"]
