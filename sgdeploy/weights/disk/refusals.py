"""The words for what a worker refuses: the same whether it works here or on a node."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sgdeploy.errors import LockedError, SgdeployError, StateError
from sgdeploy.problems import Problem
from sgdeploy.weights.cut.names import first_of
from sgdeploy.weights.cut.text import bytes_text
from sgdeploy.weights.errors import CheckpointError, ReplicaError, TargetError

_AGAIN = "run the same command again; what is finished is kept"
_ELSEWHERE = "choose another --out"
_DENIED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOENT})
"""What an operating system says of a place that is no target at all, unlike a disk that fails on the way."""


@dataclass(frozen=True)
class Target:
    """What the words are about.

    Attributes:
        out: folder that was to be written.
        facts: of the plan.
        node: bytes that each node needs where each makes its own part; None where that is not known.
    """

    out: str
    facts: Mapping[str, Any]
    node: int | None = None


def explain(code: str, details: Mapping[str, Any], target: Target) -> SgdeployError:
    """Make the error for a refusal."""
    make = _ERRORS.get(code)
    if make is None:
        return StateError(f"{target.out}: refused: {code} {dict(details)}", hint=_AGAIN)
    return make(details, target)


def _locked(details: Mapping[str, Any], target: Target) -> LockedError:
    message = f"another split-weights ({_owner(details['owner'])}) is writing to {target.out}"
    return LockedError(message, hint="wait until it has ended")


def _owner(owner: Mapping[str, Any]) -> str:
    if "pid" not in owner:
        return "its pid is not known"
    here = owner.get("host") == os.uname().nodename
    return f"pid {owner['pid']}" + ("" if here else f" on {owner.get('host')}")


def _other_plan(details: Mapping[str, Any], target: Target) -> StateError:
    message = f"{target.out} holds a split by another plan: {_differences(details['facts'], target.facts)}"
    return StateError(message, hint=f"{_ELSEWHERE}, or pass --start-over to remove that split first")


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    differ = [f"{key} {theirs[key]} there, {now} here" for key, now in ours.items() if theirs.get(key, now) != now]
    return "; ".join(differ) or "the checkpoint, or the rules of this sgdeploy, are others"


def _foreign(details: Mapping[str, Any], target: Target) -> CheckpointError:
    hint = f"remove it, or {_ELSEWHERE}"
    reasons = {
        "extra": "is not from this plan and would be loaded as well",
        "taken": "exists already and was not written by this plan",
    }
    return CheckpointError(
        [
            Problem(f"{target.out}/{path} {reason}", hint, code="foreign")
            for kind, reason in reasons.items()
            for path in details[kind]
        ]
    )


def _space(details: Mapping[str, Any], target: Target) -> TargetError:
    with_nodes = "" if target.node is None else f". With --node-rank each node needs {bytes_text(target.node)}"
    return TargetError(
        f"need {bytes_text(details['need'])} on {target.out}, {bytes_text(details['free'])} free{with_nodes}",
        hint=f"make room, {_ELSEWHERE}, or split for fewer ranks: --ranks",
    )


def _disk(details: Mapping[str, Any], target: Target) -> TargetError:
    if details["errno"] == errno.ENOSPC:
        message = f"no space is left on the file system of {target.out}"
        return TargetError(message, hint=f"make room and {_AGAIN}")
    where = f" ({details['path']})" if details["path"] else ""
    if details["errno"] in _DENIED:
        message = f"{target.out} cannot be written to: {details['reason']}{where}"
        return TargetError(message, hint=f"{_ELSEWHERE}, below a folder that is there and that you may write to")
    return TargetError(f"writing to {target.out} failed: {details['reason']}{where}", hint=f"mend that and {_AGAIN}")


def _offset(details: Mapping[str, Any], target: Target) -> CheckpointError:
    del target
    message = f"{first_of(details['names'])} is not zero: the runtimes known here have no place for an offset"
    return CheckpointError([Problem(message, "quantise the checkpoint symmetrically", code="offset")])


def _replicas(details: Mapping[str, Any], target: Target) -> ReplicaError:
    what = f"{details['how']} {details['path']} to {details['twin']}: {details['reason']}"
    hint = f"pass --replicas copy (or another kind) and {_AGAIN}"
    return ReplicaError(f"the file system of {target.out} cannot {what}", hint=hint)


def _damaged(details: Mapping[str, Any], target: Target) -> StateError:
    del target
    hint = f"remove the folder and run the same command again, or {_ELSEWHERE}"
    return StateError(f"{details['path']} is damaged: {details['reason']}", hint=hint)


def _changed(details: Mapping[str, Any], target: Target) -> StateError:
    del target
    what = details["shard"] or "a file of the checkpoint"
    hint = "let nobody write to the model folder, and run the same command again: what it has changed is made again"
    return StateError(f"{what} is another file than when the split was begun", hint=hint)


def _short(details: Mapping[str, Any], target: Target) -> StateError:
    del target
    hint = f"let nobody write to the model folder, and {_AGAIN}"
    return StateError(f"{details['shard']} became shorter while it was read", hint=hint)


def _size(details: Mapping[str, Any], target: Target) -> StateError:
    del target
    sizes = f"has {details['size']} bytes and should have {details['expected']}"
    return StateError(f"{details['path']} {sizes}", hint=_AGAIN)


_ERRORS: Mapping[str, Callable[[Mapping[str, Any], Target], SgdeployError]] = {
    "locked": _locked,
    "other-plan": _other_plan,
    "foreign": _foreign,
    "offset": _offset,
    "replicas": _replicas,
    "space": _space,
    "disk": _disk,
    "damaged": _damaged,
    "changed": _changed,
    "short": _short,
    "size": _size,
}
"""Code of a refusal → its words."""
