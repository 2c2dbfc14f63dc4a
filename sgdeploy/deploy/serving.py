"""Whether a unit may be serving, judged from what is on record: pure, and in doubt it may.

Who stops what serves has to ask. So only what is known to be incomplete serves nobody: a rank that was planned has
ended, or was never started. A rank that is only missing on record may well live, where its host says nothing or has a
living process that no plan knows: a record that was changed by hand is no proof that an instance is broken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sgdeploy.deploy.records import HostRecords, RecordedProcess, Records
from sgdeploy.plan.model import Plan, Process


def may_serve(unit: str, rows: Collection[RecordedProcess], records: Records, wanted: Plan) -> bool:
    """Tell whether all of a unit lives or may live, as it was planned when it was started.

    Args:
        unit: its selector.
        rows: what is on record of it.
        records: of all hosts that answered.
        wanted: the plan that stands in where none on record can be read.
    """
    living = [row for row in rows if row.alive]
    plans = {plan.digest: plan for row in living if (plan := records.hosts[row.host].plan) is not None}
    started = [plan.of_units({unit}) for plan in plans.values()] or [wanted.of_units({unit})]
    return bool(living) and any(_complete(processes, rows, records) for processes in started)


def _complete(processes: Iterable[Process], rows: Collection[RecordedProcess], records: Records) -> bool:
    alive = {(row.id, row.host): row.alive for row in rows}
    return all(
        alive.get((process.id, process.host), _may_live_unrecorded(records.hosts.get(process.host)))
        for process in processes
    )


def _may_live_unrecorded(there: HostRecords | None) -> bool:
    if there is None:
        return True
    planned = () if there.plan is None else there.plan.on_host(there.host)
    known = {process.id for process in planned}
    return any(row.id not in known for row in there.living)
