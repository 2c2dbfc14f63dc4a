"""When a unit that failed is started again, and when no more: state and event and now → state and action. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sgdeploy.plan.model import RestartPolicy
from sgdeploy.words import plural

CALM = 600.0
"""Seconds of being ready after which failures before it count no more."""


@dataclass(frozen=True)
class Again:
    """Start these units again.

    Attributes:
        units: all that failed, in the order given.
        delay: seconds to wait before.
        attempt: which restart in a row it is, of the unit that has had most.
    """

    units: tuple[str, ...]
    delay: float
    attempt: int


@dataclass(frozen=True)
class GiveUp:
    """Start nothing any more.

    Attributes:
        unit: which has no restart left.
        reason: in words that go behind its name.
    """

    unit: str
    reason: str


Action: TypeAlias = "Again | GiveUp"


@dataclass(frozen=True)
class Streak:
    """What is known of one unit.

    Attributes:
        restarts: in a row.
        ready_since: when it became ready, None while it is not.
    """

    restarts: int = 0
    ready_since: float | None = None


@dataclass(frozen=True)
class Restarts:
    """All units of a deployment. Immutable.

    Attributes:
        policies: unit → how it is restarted; the others are not.
        streaks: unit → what is known of it.
    """

    policies: Mapping[str, RestartPolicy]
    streaks: Mapping[str, Streak] = field(default_factory=dict)

    def ready(self, units: Collection[str], now: float) -> Restarts:
        """Note that units are ready; who was before stays so."""
        known = {unit: self.streaks.get(unit, Streak()) for unit in units}
        begun = {unit: Streak(one.restarts, now) for unit, one in known.items() if one.ready_since is None}
        return Restarts(self.policies, {**self.streaks, **begun})

    def failed(self, units: Collection[str], now: float) -> tuple[Restarts, Action]:
        """Note that units failed, and decide.

        Each of them counts one more restart, from zero where it had been ready for ``CALM`` seconds. All are started
        together after the longest of their pauses; where one has none left, nothing is.
        """
        after, delay, attempt = dict(self.streaks), 0.0, 0
        for unit in units:
            policy = self.policies.get(unit)
            if policy is None:
                return self, GiveUp(unit, "has failed, and its profile has no `restart:` for it")
            count = self._so_far(unit, now)
            if count >= policy.max:
                return self, GiveUp(unit, f"has failed again after {plural(policy.max, 'restart')} in a row")
            delay = max(delay, policy.backoff * 2**count)
            attempt = max(attempt, count + 1)
            after[unit] = Streak(count + 1)
        return Restarts(self.policies, after), Again(tuple(units), delay, attempt)

    def _so_far(self, unit: str, now: float) -> int:
        streak = self.streaks.get(unit, Streak())
        calm = streak.ready_since is not None and now - streak.ready_since >= CALM
        return 0 if calm else streak.restarts
