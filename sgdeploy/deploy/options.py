"""What a command asks of a use case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sgdeploy.plan.model import PlanHost


@dataclass(frozen=True)
class Owner:
    """Who runs the command: shown to whoever finds the deployment locked, and kept in the audit log.

    Attributes:
        user: login name on the controller.
        host: host name of the controller.
        pid: process id on the controller.
        command: the command as typed (no secrets are ever typed).
        machine: which machine, since which boot, in which name space of pids; "" where that is not known.
        start: when the process was started there, in clock ticks since the boot.
    """

    user: str
    host: str
    pid: int
    command: str
    machine: str = ""
    start: int | None = None

    def __str__(self) -> str:
        """Give ``user@host (pid 123)``."""
        return f"{self.user}@{self.host} (pid {self.pid})"

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        return asdict(self)


def _nothing(*_: object) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class UpOptions:
    """How ``up`` behaves.

    Attributes:
        owner: who asks.
        timeout: overall limit in seconds instead of the profile's, or None.
        wait: False ends ``up`` once every process lives, without waiting for ready.
        dry_run: connect and check, touch nothing.
        keep: leave what was started running when bring-up fails.
        only: selectors of what to start (``router``, ``prefill/long``); empty for everything.
        secrets: value of every secret variable that the plan names.
        remember: called right before the first process may start or end, and where what runs is taken up: whatever runs
            from then on has to be found by its name, also where the command is interrupted in the middle of a start.
            More than one call does no harm.
        clean: hears of hosts that the plan does not have any more, once it is proven that they hold nothing.
        yes: what runs and would have to end for this plan ends without a question.
        confirm: asks the operator, None where there is nobody to ask.
        also: hosts that the plan does not have and that may hold records; those that cannot be reached are told.
        anew: selectors of what restarts whatever it does, empty for everything; None for nothing.
        recorded: the plan is the one on record; the one at hand only says where to look.
        verb: the command, for the history.
        why: what made it necessary where nobody asked for it, for the history.
        lock_wait: seconds to wait for another command that works on the deployment.
    """

    owner: Owner
    timeout: float | None = None
    wait: bool = True
    dry_run: bool = False
    keep: bool = False
    only: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    remember: Callable[[], None] = _nothing
    clean: Callable[[Sequence[PlanHost]], None] = _nothing
    yes: bool = False
    confirm: Callable[[str], Awaitable[bool]] | None = None
    also: tuple[PlanHost, ...] = ()
    anew: tuple[str, ...] | None = None
    recorded: bool = False
    verb: str = "up"
    why: str = ""
    lock_wait: float = 0.0


@dataclass(frozen=True)
class DownOptions:
    """How ``down`` behaves.

    Attributes:
        owner: who asks.
        grace: seconds given to the leaders to drain instead of the profile's, or None.
        now: kill at once, no drain.
        only: selectors of what to stop; empty for everything.
        keep_records: leave records on the hosts even after the proof (for a look afterwards).
        lock_wait: seconds to wait for another command that works on the deployment.
        also: hosts that the plan does not have and that may hold records; without them nothing is proven gone.
    """

    owner: Owner
    grace: float | None = None
    now: bool = False
    keep_records: bool = False
    only: tuple[str, ...] = ()
    lock_wait: float = 0.0
    also: tuple[PlanHost, ...] = ()
