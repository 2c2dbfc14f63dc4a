"""What happens during a command, as typed values in one stream; the console shows them, nobody else prints.

``to_json`` of an event is one line of ``--json`` output: ``{"event": "<kind>", "time": …, …}``; ``time`` (seconds
since the epoch) is added by the console when it writes the line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from sgdeploy.diagnose.advice import Advice
from sgdeploy.errors import Cause
from sgdeploy.health import states

if TYPE_CHECKING:
    from sgdeploy.deploy.replan import Replan

State: TypeAlias = states.State


def _plain(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object; times are good to a millisecond."""
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in fields}


@dataclass(frozen=True)
class Event:
    """Base of all events."""

    kind: ClassVar[str] = "event"

    def to_json(self) -> dict[str, Any]:
        """Give the event as plain JSON values, its kind first."""
        return {"event": self.kind, **asdict(self, dict_factory=_plain)}


@dataclass(frozen=True)
class Step(Event):
    """A numbered stage of a command begins: ``[2/7] facts of 16 hosts``."""

    kind: ClassVar[str] = "step"
    number: int
    of: int
    title: str


@dataclass(frozen=True)
class Note(Event):
    """A sentence that the operator should read, and the hosts that it is about (none: about all)."""

    kind: ClassVar[str] = "note"
    message: str
    level: Literal["info", "warning"] = "info"
    hosts: tuple[str, ...] = ()
    hint: str | None = None


@dataclass(frozen=True)
class HostState(Event):
    """A host changed: ``connected``, ``checked``, ``prepared``, ``started``, ``stopping``, ``stopped``, ``lost``."""

    kind: ClassVar[str] = "host"
    host: str
    state: str
    detail: str = ""


@dataclass(frozen=True)
class RankState(Event):
    """A process changed its state or phase, or has a new last line.

    Attributes:
        process: id in the plan.
        host: inventory name.
        state: where it stands.
        phase: the last log milestone it reached, in words (``weights loaded``), or "".
        seconds: since its start.
        line: its last log line, stripped of colour codes, cut to 200 characters.
        changed: whether state or phase changed (plain output prints only those).
    """

    kind: ClassVar[str] = "rank"
    process: str
    host: str
    state: State
    phase: str
    seconds: float
    line: str = ""
    changed: bool = True


@dataclass(frozen=True)
class Heartbeat(Event):
    """Nothing new for a while: what is being waited for, counted by state."""

    kind: ClassVar[str] = "heartbeat"
    seconds: float
    counts: dict[str, int]
    waiting_for: str


@dataclass(frozen=True)
class ProcessFailed(Event):
    """A process died or failed; sent before anything is stopped, the first cause first.

    Attributes:
        process: id in the plan.
        host: inventory name.
        reason: ``exit code 3``, ``killed by SIGKILL (9)``.
        lines: its last log lines, oldest first.
        log: the log's path on the host.
        seconds_to_report: from the death as the node saw it to our report, where known.
        symptom: its own log says that it lost a peer: another process is the cause.
    """

    kind: ClassVar[str] = "failed"
    process: str
    host: str
    reason: str
    lines: tuple[str, ...]
    log: str
    seconds_to_report: float | None
    symptom: bool = False


@dataclass(frozen=True)
class Completion(Event):
    """A completion that proves that the deployment serves.

    Attributes:
        tokens: that were generated.
        text: that was generated.
        seconds: from request to answer, measured on the front door's host.
        prompt: what was asked.
        first_token: seconds until the first text came, null where the server did not stream.
        prefill: unit of the prefill that served it (``prefill/short``), null where there is only one, or nobody tells.
    """

    kind: ClassVar[str] = "completion"
    tokens: int
    text: str
    seconds: float
    prompt: str
    first_token: float | None = None
    prefill: str | None = None


@dataclass(frozen=True)
class SplitProgress(Event):
    """How far a split of weights is, about once a second and at its end.

    Attributes:
        host: inventory name; "" for this machine.
        files: that are done, links included.
        of_files: in all.
        written: bytes that are done; links count nothing.
        of_bytes: in all.
        rate: bytes per second.
        left: seconds until the end at this rate, null before it can be told.
        doing: ``split`` or ``verify``.
    """

    kind: ClassVar[str] = "split"
    host: str
    files: int
    of_files: int
    written: int
    of_bytes: int
    rate: float
    left: float | None
    doing: str = "split"

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.files >= self.of_files


@dataclass(frozen=True)
class Replanned(Event):
    """What becomes of what runs, where it is not all as planned; told before anything is touched."""

    kind: ClassVar[str] = "replan"
    fates: Replan

    def to_json(self) -> dict[str, Any]:
        """Give what ``Replan.to_json`` gives, its kind first."""
        return {"event": self.kind, **self.fates.to_json()}


@dataclass(frozen=True)
class Outcome(Event):
    """The last event of a command.

    ``ready``, ``started`` (--no-wait), ``stopped``, ``nothing``, ``dry-run``; of weights ``split``, ``verified``.
    """

    kind: ClassVar[str] = "outcome"
    outcome: str
    message: str
    seconds: float


Tell: TypeAlias = Callable[[Event], None]
"""How a use case speaks: it hands over events; it never prints."""


@dataclass(frozen=True)
class ProcessStatus:
    """One row of `status`."""

    process: str
    host: str
    unit: str
    state: State
    pid: int | None
    phase: str
    seconds: float | None
    http: str
    line: str
    reason: str = ""


@dataclass(frozen=True)
class DeploymentStatus:
    """What `status` found.

    Attributes:
        name: deployment.
        state: ``ready`` (exit 0), ``degraded`` or ``starting`` (exit 1), ``down`` (exit 9).
        digest: digest of the plan that runs, "" when down.
        drift: sentences on how what runs differs from the profile's plan.
        unreachable: host → reason.
        locked_by: who is at work on it now, "" for nobody.
        processes: one row per process, plan order.
        front_door: ``http://address:port``.
        causes: what the logs tell of processes that failed, the first cause on top.
        advice: what the figures of its servers say about its settings, where that was asked for.
    """

    name: str
    state: Literal["ready", "starting", "degraded", "down"]
    digest: str
    drift: tuple[str, ...]
    unreachable: dict[str, str]
    locked_by: str
    processes: tuple[ProcessStatus, ...]
    front_door: str
    causes: tuple[Cause, ...] = ()
    advice: tuple[Advice, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        return asdict(self, dict_factory=_plain)
