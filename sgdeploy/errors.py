"""The family of errors. Each knows its exit code; only the command line turns one into an exit.

Exit codes (all commands): 0 done or ready; 1 (status) degraded or starting, (diff) different; 2 profile or
inventory wrong; 3 preflight; 4 locked by another; 5 a host could not be reached or obeyed; 6 a process failed,
(diagnose) something is wrong; 7 time ran out; 8 what runs or is on record does not fit; 9 down; 70 our own fault;
130 interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sgdeploy.words import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sgdeploy.problems import Problem


class SgdeployError(Exception):
    """Root of everything we raise on purpose.

    Attributes:
        exit_code: what the process ends with.
        hint: the next step for the operator, or None.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Keep the message (what and why) and the hint (what next)."""
        super().__init__(message)
        self.hint = hint


class UsageError(SgdeployError):
    """The command line itself is wrong (unknown deployment, contradicting options)."""

    exit_code = 2


class ProfileError(SgdeployError):
    """The profile or the inventory is wrong; carries every problem found, in order of place."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep all problems; the message counts the errors among them."""
        self.problems = tuple(problems)
        count = sum(p.level == "error" for p in self.problems)
        super().__init__(plural(count, "error"))


@dataclass(frozen=True)
class HostFault:
    """What is wrong with one host.

    Attributes:
        host: inventory name.
        reason: one sentence, with the evidence (last line of stderr, errno text).
        hint: a command or a step that mends it.
    """

    host: str
    reason: str
    hint: str | None = None


class HostsError(SgdeployError):
    """Base of the errors that are about hosts; carries one fault per host (all hosts, not the first)."""

    exit_code = 5

    def __init__(self, message: str, faults: Sequence[HostFault], *, hint: str | None = None) -> None:
        """Keep the faults beside the headline."""
        super().__init__(message, hint=hint)
        self.faults = tuple(faults)


class PreflightError(HostsError):
    """The hosts were reached but do not fit the plan (port taken, no space, no python3, too few hugepages)."""

    exit_code = 3


class UnsetSecretError(HostsError):
    """A secret of the profile has no value in the environment of this machine; the hosts have nothing to do with it."""

    exit_code = 2


class RemoteError(HostsError):
    """A host could not be reached, refused us, or stopped answering."""

    exit_code = 5


class LockedError(SgdeployError):
    """Another controller is at work on this deployment."""

    exit_code = 4


@dataclass(frozen=True)
class Cause:
    """What is behind a failure, as far as the logs tell (docs/diagnosis.md).

    Attributes:
        rule: id of the rule.
        process: the one at fault, its id in the plan.
        host: inventory name, "" where unknown.
        cause: a sentence.
        next: what to do.
        evidence: ``path:line | text``, the telling line first.
    """

    rule: str
    process: str
    host: str
    cause: str
    next: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProcessFault:
    """How one process failed.

    Attributes:
        process: its id in the plan.
        host: inventory name.
        reason: ``exit code 3`` or ``killed by SIGKILL`` or ``no log line for 600 s``.
        lines: its last log lines, oldest first, at most 20.
        log: the log's path on the host.
        seconds_to_report: from the death as the node saw it to our report, where known.
        symptom: its own log says that it lost a peer: another process is the cause.
        cause: what its log tells of the reason behind it, None where nobody has looked or it says nothing.
    """

    process: str
    host: str
    reason: str
    lines: tuple[str, ...] = ()
    log: str = ""
    seconds_to_report: float | None = None
    symptom: bool = False
    cause: Cause | None = None


class StartupError(SgdeployError):
    """A process died or failed during bring-up; carries each one that did, the first cause first.

    Attributes:
        causes: what the logs tell, the first cause on top; empty until somebody has read them.
    """

    exit_code = 6

    def __init__(self, message: str, faults: Sequence[ProcessFault], *, hint: str | None = None) -> None:
        """Keep the faults beside the headline."""
        super().__init__(message, hint=hint)
        self.faults = tuple(faults)
        self.causes: tuple[Cause, ...] = ()


@dataclass(frozen=True)
class Missing:
    """Who had not become ready when the time ran out."""

    process: str
    host: str
    phase: str
    line: str = ""


class WaitTimeoutError(SgdeployError):
    """One of the two clocks (overall or stall) ran out; says which and who is missing.

    Attributes:
        causes: what the logs tell, the first cause on top; empty until somebody has read them.
    """

    exit_code = 7

    def __init__(self, message: str, missing: Sequence[Missing], *, hint: str | None = None) -> None:
        """Keep who is missing beside the headline."""
        super().__init__(message, hint=hint)
        self.missing = tuple(missing)
        self.causes: tuple[Cause, ...] = ()


class StateError(SgdeployError):
    """The records on the hosts and the plan (or each other) do not fit together."""

    exit_code = 8


class UnconfirmedError(SgdeployError):
    """What runs would have to end for what was asked, and nobody said yes to that; nothing was changed."""

    exit_code = 8


class NotRunningError(SgdeployError):
    """The command is about what runs, and nothing does."""

    exit_code = 9


class UnrecordedError(HostsError):
    """Processes of this deployment live on hosts although no record names them: records were removed or damaged."""

    exit_code = 8


@dataclass(frozen=True)
class Leftover:
    """A process, port or page count that should be gone and is not."""

    host: str
    what: str


class LeftoverError(SgdeployError):
    """`down` could not prove that everything is gone; records are kept."""

    exit_code = 5

    def __init__(
        self,
        message: str,
        leftovers: Sequence[Leftover],
        faults: Sequence[HostFault] = (),
        *,
        hint: str | None = None,
    ) -> None:
        """Keep what is left, and the hosts that could not be asked."""
        super().__init__(message, hint=hint)
        self.leftovers = tuple(leftovers)
        self.faults = tuple(faults)


class CancelledRunError(SgdeployError):
    """Ctrl-C: the command stopped in an orderly way; the hint says what was left and how to go on."""

    exit_code = 130


class GivenUpError(CancelledRunError):
    """The command stood still (Ctrl-Z) until hosts took it for gone: nothing of what they run has failed."""
