"""`diff`: what `up` would make of what runs. Nothing is changed."""

from __future__ import annotations

from sgdeploy.deploy.approach import Approach
from sgdeploy.deploy.events import Tell
from sgdeploy.deploy.options import UpOptions
from sgdeploy.deploy.replan import Replan
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Connector


async def diff(plan: Plan, connector: Connector, tell: Tell, options: UpOptions) -> Replan:
    """Hold a plan against what the hosts have on record, and what of it lives.

    Raises:
        RemoteError: a host could not be reached, or gave no records.
        UnrecordedError: something runs that no record names.
    """
    try:
        approach = Approach(plan, connector, tell, options)
        await approach.connect()
        _, task = await approach.look()
    finally:
        await connector.close_all()
    return task.fates
