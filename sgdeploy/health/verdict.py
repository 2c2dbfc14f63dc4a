"""What the health of a whole deployment comes to: wait on, ready, failed, or out of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sgdeploy.errors import HostFault, Missing, ProcessFault


@dataclass(frozen=True)
class Waiting:
    """Nothing is decided.

    Attributes:
        missing: who is not ready yet.
    """

    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class Ready:
    """Every process is ready. Whether the deployment serves is shown by a completion only."""


@dataclass(frozen=True)
class Failed:
    """At least one process failed or one host was lost.

    Attributes:
        message: headline, the first cause in it.
        faults: one per failed process, the earliest death first.
        lost: one per host that does not answer any more.
    """

    message: str
    faults: tuple[ProcessFault, ...]
    lost: tuple[HostFault, ...]


@dataclass(frozen=True)
class TimedOut:
    """One of the two clocks ran out.

    Attributes:
        clock: ``overall`` or ``stall``.
        message: which clock, its limit, and how many are missing.
        missing: who is not ready, the one that moved last at the end.
    """

    clock: Literal["overall", "stall"]
    message: str
    missing: tuple[Missing, ...]


Verdict: TypeAlias = "Waiting | Ready | Failed | TimedOut"
