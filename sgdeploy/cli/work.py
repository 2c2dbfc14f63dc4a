"""The use cases as the commands call them: with a connector, an owner, and the registry kept up to date."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sgdeploy.cli.before import ELSEWHERE, hosts_of_before, left_hosts, looks_elsewhere, moved_hosts
from sgdeploy.cli.redact import redact_words
from sgdeploy.cli.targets import Target, registry
from sgdeploy.deploy import diff as diff_case
from sgdeploy.deploy import down as down_case
from sgdeploy.deploy import parting as parting_case
from sgdeploy.deploy import past as past_case
from sgdeploy.deploy import status as status_case
from sgdeploy.deploy import supervise as supervise_case
from sgdeploy.deploy import up as up_case
from sgdeploy.deploy import wait as wait_case
from sgdeploy.deploy.events import DeploymentStatus, Event, Note, Outcome, Tell
from sgdeploy.deploy.history import short
from sgdeploy.deploy.options import DownOptions, Owner, UpOptions
from sgdeploy.deploy.whereabouts import machine, start_of
from sgdeploy.errors import SgdeployError
from sgdeploy.remote.connect import connector
from sgdeploy.remote.waits import together

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk
    from sgdeploy.console.console import Console
    from sgdeploy.deploy.diagnose import Diagnosed
    from sgdeploy.deploy.hostlogs import LogsOptions
    from sgdeploy.deploy.locking import LockState
    from sgdeploy.deploy.past import Past
    from sgdeploy.deploy.replan import Replan
    from sgdeploy.plan.model import Plan, PlanHost
    from sgdeploy.remote.base import Connector

READY, NOT_READY, DOWN = 0, 1, 9
_CODES = {"ready": READY, "starting": NOT_READY, "degraded": NOT_READY, "down": DOWN}


@dataclass(frozen=True)
class Wanted:
    """What `up` was asked for; see ``UpOptions``."""

    timeout: float | None = None
    wait: bool = True
    dry_run: bool = False
    keep: bool = False
    only: tuple[str, ...] = ()
    yes: bool = False
    verb: str = "up"
    lock_wait: float = 0.0


async def bring_up(desk: Desk, console: Console, target: Target, wanted: Wanted) -> None:
    """Run ``up``. The deployment is known by its name from the moment its first process may start.

    Raises:
        SgdeployError: as ``up`` does.
    """

    def remember() -> None:
        try:
            registry(desk).remember(target.plan, target.profile, sets=target.sets, overlays=target.overlays)
        except OSError as error:
            what = f"this machine cannot remember {target.plan.name}: {error.filename}: {error.strerror}"
            console.tell(Note(what, "warning", hint="name the profile's path to `status` and `down`"))

    def clean(hosts: Sequence[PlanHost]) -> None:
        with suppress(OSError):  # they are asked once more, then
            registry(desk).proven_clean(target.plan.name, hosts)

    options = UpOptions(
        owner(desk),
        timeout=wanted.timeout,
        wait=wanted.wait,
        dry_run=wanted.dry_run,
        keep=wanted.keep,
        only=wanted.only,
        secrets=desk.secrets_of(target.plan),
        remember=remember,
        clean=clean,
        yes=wanted.yes,
        verb=wanted.verb,
        lock_wait=wanted.lock_wait,
        confirm=desk.ask if desk.can_ask else None,
        also=await hosts_of_before(desk, console, target.plan),
    )
    await up_case.up(target.plan, patient(console.tell), console.tell, options)


def patient(tell: Tell) -> Connector:
    """Make a connector that says which hosts it is waiting for."""

    def slow(hosts: Sequence[str], seconds: float) -> None:
        tell(Note(f"not open yet after {seconds:.0f} s", hosts=tuple(hosts)))

    return connector(slow=slow)


async def difference(desk: Desk, console: Console, plan: Plan) -> Replan:
    """Run ``diff``; of what happens on the way only warnings are told.

    Raises:
        SgdeployError: as ``diff`` does.
    """

    def tell(event: Event) -> None:
        if isinstance(event, Note) and event.level == "warning":
            console.warn(event)

    options = UpOptions(owner(desk), also=await hosts_of_before(desk, console, plan))
    return await diff_case.diff(plan, connector(), tell, options)


async def wait_for(desk: Desk, console: Console, plan: Plan, timeout: float | None) -> None:
    """Run ``wait``.

    Raises:
        SgdeployError: as ``wait`` does.
    """
    options = UpOptions(owner(desk), timeout=timeout, secrets=desk.secrets_of(plan), recorded=True)
    await wait_case.wait(plan, connector(), console.tell, options)


async def restart(desk: Desk, console: Console, plan: Plan, only: tuple[str, ...], wanted: Wanted) -> None:
    """Run ``up`` for a part of the plan that runs, and start that part anew.

    Raises:
        SgdeployError: as ``up`` does.
    """
    asked = UpOptions(owner(desk), timeout=wanted.timeout, only=only, secrets=desk.secrets_of(plan), yes=True)
    asked = replace(asked, anew=only, recorded=True, verb="restart", lock_wait=wanted.lock_wait)
    await up_case.up(plan, connector(), console.tell, asked)


async def watch_over(desk: Desk, console: Console, plan: Plan) -> None:
    """Run ``watch``.

    Raises:
        SgdeployError: as ``supervise`` does.
    """
    options = UpOptions(owner(desk), secrets=desk.secrets_of(plan), recorded=True, verb="watch")
    await supervise_case.supervise(plan, connector, console.tell, options)


async def history(desk: Desk, plan: Plan) -> Past:
    """Read what was done to a deployment.

    Raises:
        SgdeployError: as ``past`` does.
    """
    return await past_case.past(plan, connector(), also=left_hosts(desk, plan))


async def roll_back(desk: Desk, console: Console, target: Target, to: str | None, wanted: Wanted) -> None:
    """Find an earlier plan that was ready, and run ``up`` with it.

    Raises:
        SgdeployError: as ``past``, ``earlier`` and ``up`` do.
    """
    also = left_hosts(desk, target.plan)
    found = await past_case.past(target.plan, connector(), plans=True, also=also)
    plan = past_case.earlier(found, target.plan.name, to)
    ready = next(entry for entry in reversed(found.entries) if entry.ready and entry.plan == short(plan.digest))
    console.tell(Note(f"back to plan {short(plan.digest)}, which was ready at {ready.when} ({ready.who})"))
    await bring_up(desk, console, replace(target, plan=plan), wanted)
    console.tell(Note("the profile is as it was: `sgdeploy diff` shows how it differs from what runs now"))


async def show_parting(desk: Desk, console: Console, plan: Plan) -> None:
    """Send short and long prompts, and show that different prefill instances serve them.

    Raises:
        SgdeployError: as ``part`` does.
    """
    await parting_case.part(plan, connector(), console.tell, desk.secrets_of(plan))


async def take_down(desk: Desk, console: Console, plan: Plan, options: DownOptions) -> None:
    """Run ``down``; of a deployment that is proven gone only its name, plan and profile stay known.

    Where the profile has changed since it was started, it is taken down there first.

    Raises:
        SgdeployError: as ``down`` does.
    """
    outcomes: list[Outcome] = []

    def tell(event: Event) -> None:
        if isinstance(event, Outcome):
            outcomes.append(event)
        else:
            console.tell(event)

    moved, also = moved_hosts(desk, plan), left_hosts(desk, plan)
    if moved or also:
        console.tell(Note("the profile has changed since: also looking where it was started", "info"))
    for each in moved:
        await down_case.down(each, patient(tell), tell, options)
    await down_case.down(plan, patient(tell), tell, replace(options, also=also))
    console.tell(next((outcome for outcome in outcomes if outcome.outcome == "stopped"), outcomes[-1]))
    if not options.keep_records and not options.only:
        registry(desk).put_away(plan.name)


async def look_into(plan: Plan) -> Diagnosed:
    """Run ``diagnose`` over the hosts of a plan.

    Raises:
        SgdeployError: as ``diagnose_deployment`` does.
    """
    from sgdeploy.deploy.diagnose import diagnose_deployment

    return await diagnose_deployment(plan, connector())


async def show_logs(desk: Desk, console: Console, plan: Plan, options: LogsOptions) -> None:
    """Run ``logs``; stdout gets nothing but lines.

    Raises:
        SgdeployError: as ``logs`` does.
    """
    from sgdeploy.deploy import logs as logs_case

    if looks_elsewhere(desk, plan):
        console.warn(Note(f"{ELSEWHERE}; `sgdeploy logs {plan.name}` looks there", "warning"))
    await logs_case.logs(plan, connector(), console.log_lines(plan.processes), console.warn, options)


async def state_of_lock(plan: Plan) -> LockState:
    """Run ``lock status``.

    Raises:
        SgdeployError: as ``lock_state`` does.
    """
    from sgdeploy.deploy.locking import lock_state

    return await lock_state(plan, connector())


async def take_lock(desk: Desk, plan: Plan, *, force: bool) -> LockState:
    """Run ``lock release``.

    Raises:
        SgdeployError: as ``release_lock`` does.
    """
    from sgdeploy.deploy.locking import release_lock

    return await release_lock(plan, connector(), owner(desk), force=force)


async def ask(desk: Desk, plan: Plan, *, advise: bool = False) -> DeploymentStatus:
    """Run ``status``, with advice on the settings where that is wanted.

    Raises:
        SgdeployError: as ``status`` does.
    """
    also = left_hosts(desk, plan)
    found = await status_case.status(plan, connector(), desk.secrets_of(plan), advise=advise, also=also)
    if not looks_elsewhere(desk, plan):
        return found
    return replace(found, drift=(*found.drift, f"{ELSEWHERE}; `sgdeploy status {plan.name}` looks there"))


async def ask_all(desk: Desk, plans: Sequence[Plan]) -> tuple[list[DeploymentStatus], list[SgdeployError]]:
    """Run ``status`` for each plan, all at once; one that cannot be asked does not hide the others."""
    statuses: list[DeploymentStatus] = []
    errors: list[SgdeployError] = []

    async def one(plan: Plan) -> None:
        try:
            statuses.append(await ask(desk, plan))
        except SgdeployError as error:
            errors.append(error)

    await together(*map(one, plans))
    return sorted(statuses, key=lambda status: status.name), errors


def verdict(statuses: Sequence[DeploymentStatus]) -> int:
    """Give the exit code of `status`: the one that all have in common, else 1."""
    codes = {_CODES[status.state] for status in statuses}
    return codes.pop() if len(codes) == 1 else NOT_READY if codes else READY


def owner(desk: Desk) -> Owner:
    """Say who runs this command, for the lock and the audit log; secrets in its words are hidden."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        user = str(os.getuid())
    words = redact_words(desk.argv, desk.environ, desk.secret_names)
    command = shlex.join(["sgdeploy", *words])
    return Owner(user, socket.gethostname(), os.getpid(), command, machine(), start_of(os.getpid()))
