"""The part of each host that a command means: everything of the deployment, or only some of its units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sgdeploy.deploy.records import HostRecords
from sgdeploy.deploy.stop import Stopped, Stopper
from sgdeploy.plan.model import Plan


@dataclass(frozen=True)
class Part:
    """What is to be stopped on one host.

    Attributes:
        plan: as it was started there.
        ids: recorded processes that are meant.
        living: those of them that live.
        whole: nothing else of the deployment is on record there, so the host is put back as it was.
    """

    plan: Plan
    ids: tuple[str, ...]
    living: tuple[str, ...]
    whole: bool

    @classmethod
    def of(cls, found: HostRecords, plan: Plan, units: Collection[str]) -> Part:
        """Take from a host's records what belongs to the chosen units; what no plan knows is always meant."""
        others = {process.id for process in plan.processes if process.unit not in units}
        ids = tuple(process.id for process in found.processes if process.id not in others)
        living = tuple(process.id for process in found.living if process.id not in others)
        return cls(plan, ids, living, whole=len(ids) == len(found.processes))


@dataclass(frozen=True)
class Manner:
    """How parts are ended.

    Attributes:
        grace: seconds for the leaders to drain.
        audit: who did what, for the audit line on each host; None where nothing was done that deserves one.
        now: kill at once.
        keep_records: leave the records of whole hosts where they are.
    """

    grace: float
    audit: tuple[str, str] | None
    now: bool = False
    keep_records: bool = False


async def end_parts(
    stopper: Stopper, parts: Mapping[str, Part], how: Manner, *, then: Callable[[], None] | None = None
) -> Stopped:
    """Stop parts; where they are gone, put hosts back as they were, or only the parts away where more is on record.

    Args:
        stopper: for the plan that was started.
        parts: host → what is to end there.
        how: in which manner.
        then: called once nothing is stopped any more.
    """
    stopped = await stopper.stop({name: part.living for name, part in parts.items()}, grace=how.grace, now=how.now)
    if then is not None:
        then()
    gone = {name: part for name, part in parts.items() if name not in stopped.hosts}
    whole = [name for name, part in gone.items() if part.whole]
    tidied = await stopper.tidy(whole, keep_records=how.keep_records, audit=how.audit)
    rest = await stopper.tidy_some({name: part.ids for name, part in gone.items() if not part.whole}, audit=how.audit)
    return stopped + tidied + rest
