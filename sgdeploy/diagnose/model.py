"""What goes into a diagnosis and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from sgdeploy.engine.diagnosis import Level
from sgdeploy.health.states import Exit

Kind: TypeAlias = Literal["engine", "router", "kernel"]


@dataclass(frozen=True)
class ProcessLog:
    """The log of one process, or the kernel's, and what is known besides.

    Attributes:
        process: id in the plan, or the name of its file.
        lines: numbers (from 1, of the file) and texts; where the middle was left out the numbers jump.
        path: of the log, for people.
        host: inventory name, "" where unknown.
        role: as in the plan, ``kernel`` for the kernel's log, "" where the log itself must tell.
        unit: its instance; "" where the arguments in the logs must tell.
        alive: whether it lives, None where unknown; of one that was told to end, whether it lived until then.
        exit: how it ended, None while it lives or where unknown.
        listens: port by name (``http``, ``rendezvous``), as planned.
        ahead: seconds by which the clock of its host is ahead of ours, so that times of several hosts compare.
        stopped: when sgdeploy told it to end, in seconds since the epoch by our clock; None where it did not. What it
            wrote after that is not among the lines.
    """

    process: str
    lines: Iterable[tuple[int, str]]
    path: str = ""
    host: str = ""
    role: str = ""
    unit: str = ""
    alive: bool | None = None
    exit: Exit | None = None
    listens: Mapping[str, int] = field(default_factory=dict)
    ahead: float = 0.0
    stopped: float | None = None

    @property
    def runs(self) -> bool:
        """Whether it lives, and nobody told it to end: it may just need its time."""
        return bool(self.alive) and self.stopped is None


@dataclass(frozen=True)
class Evidence:
    """A line that shows it: ``path:line | text``; line 0 where it has no number."""

    path: str
    line: int
    text: str


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or follows from it.

    Attributes:
        rule: id of the rule.
        level: how much it explains.
        process: the faulty one.
        host: inventory name, "" where unknown.
        rank: tag of the rank in a log of several (``TP3``), or "".
        cause: a sentence.
        next: what to do.
        source: where the rule is known from.
        evidence: lines that show it, the telling one first.
        at: seconds since the epoch by the log's own stamps, less what its host's clock is ahead; None without a stamp.
    """

    rule: str
    level: Level
    process: str
    host: str
    rank: str
    cause: str
    next: str
    source: str
    evidence: tuple[Evidence, ...] = ()
    at: float | None = None

    @property
    def where(self) -> str:
        """``native/n01/r00 on h1 (TP0)``, as far as it is known."""
        host = f" on {self.host}" if self.host else ""
        return f"{self.process}{host}" + (f" ({self.rank})" if self.rank else "")


@dataclass(frozen=True)
class Seen:
    """How far a process came.

    Attributes:
        process: its id.
        host: inventory name, "" where unknown.
        path: of its log.
        kind: whose log it is.
        phases: in words, in order.
        line: its last line.
        lines: how many were read.
    """

    process: str
    host: str
    path: str
    kind: Kind
    phases: tuple[str, ...]
    line: str
    lines: int


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with a deployment.

    Attributes:
        findings: causes, the first one on top; none where nothing is wrong.
        consequences: what follows from them on other ranks.
        notes: sentences worth knowing that are no fault.
        seen: all processes.
        stopped: when sgdeploy told the first of them to end, in seconds since the epoch; None where all went on. What
            was written after that does not count.
    """

    findings: tuple[Finding, ...]
    consequences: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    seen: tuple[Seen, ...]
    stopped: float | None = None

    @property
    def first(self) -> Finding | None:
        """The first cause, None where nothing is wrong."""
        return self.findings[0] if self.findings else None

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        body = asdict(self)
        return {"wrong": bool(self.findings), **body, "seen": body["seen"]}
