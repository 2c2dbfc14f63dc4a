"""What differs between two plans: of the deployment as a whole, host by host, process by process.

Processes are compared by their names below the deployment, so that a renamed deployment is still compared. Secrets are
compared by their names: their values are not in a plan.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgdeploy.plan.argv import split
from sgdeploy.plan.model import SecretRef
from sgdeploy.plan.part import Part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sgdeploy.plan.model import Plan, PlanHost, Process

SWITCH = True
"""Stands for a flag that is there and takes no value."""

_APART = {"id", "argv", "in_run_dir", "env", "env_prepend", "host", "role", "instance"}
"""Fields of a process that are its name, or are compared word by word or variable by variable."""


@dataclass(frozen=True)
class Change:
    """One thing that differs.

    Attributes:
        what: ``--page-size``, ``env MODE``, ``search path PATH``, ``cores``, ``listens.http``, ``run_dir``.
        before: plain JSON value, None where there was none.
        after: plain JSON value, None where there is none.
    """

    what: str
    before: Any
    after: Any

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        return {"what": self.what, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class Members:
    """How the hosts, or the processes, of two plans differ.

    Attributes:
        gone: names that only the plan before has, in its order.
        new: names that only the plan after has, in its order.
        changed: name → what differs, in the order of the plan after.
        total: how many the plan after has.
    """

    gone: tuple[str, ...]
    new: tuple[str, ...]
    changed: Mapping[str, tuple[Change, ...]]
    total: int

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.gone or self.new or self.changed)

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        changed = {name: [change.to_json() for change in changes] for name, changes in self.changed.items()}
        return {"gone": list(self.gone), "new": list(self.new), "changed": changed}


@dataclass(frozen=True)
class Difference:
    """How two plans differ."""

    whole: tuple[Change, ...]
    hosts: Members
    processes: Members

    @property
    def same(self) -> bool:
        """Whether both run exactly the same."""
        return not self.whole and self.hosts.same and self.processes.same

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values."""
        whole = [change.to_json() for change in self.whole]
        return {"deployment": whole, "hosts": self.hosts.to_json(), "processes": self.processes.to_json()}


def compare(before: Plan, after: Plan, part: Part | None = None) -> Difference:
    """Tell how ``after`` differs from ``before``; nothing differs exactly where their digests are equal.

    Args:
        before: what runs, or another plan.
        after: what would run.
        part: compare this part only; what is about the deployment as a whole is then left out.
    """
    part = part or Part()
    old, new = ({host.host: host for host in part.hosts(plan)} for plan in (before, after))
    hosts = _members(old, new, {name: _changes(_host(old[name]), _host(new[name])) for name in new if name in old})
    were, are = ({process.label: process for process in part.processes(plan)} for plan in (before, after))
    processes = _members(were, are, {name: process_changes(were[name], are[name]) for name in are if name in were})
    whole = _changes(_whole(before), _whole(after)) if part.whole else ()
    if part.whole and not whole and hosts.same and processes.same and before.digest != after.digest:
        whole = (Change("order of hosts or processes", before.digest, after.digest),)
    return Difference(whole, hosts, processes)


def process_changes(before: Process, after: Process, without: Collection[str] = ()) -> tuple[Change, ...]:
    """Tell what differs between two processes, their names aside, and some fields."""
    fields = {name for name in type(before).model_fields if getattr(before, name) != getattr(after, name)}
    fields -= set(without)
    changes = _changes(_process(before, fields), _process(after, fields))
    if not changes and fields & {"argv", "in_run_dir"}:
        return (Change("words of the command", shlex.join(before.argv), shlex.join(after.argv)),)
    return changes


def host_changes(before: PlanHost, after: PlanHost, fields: Collection[str]) -> tuple[Change, ...]:
    """Tell what differs between two hosts in some fields."""
    chosen = set(fields)
    return _changes(
        dict(_leaves(before.model_dump(mode="json", include=chosen))),
        dict(_leaves(after.model_dump(mode="json", include=chosen))),
    )


def _members(before: Collection[str], after: Collection[str], changed: Mapping[str, tuple[Change, ...]]) -> Members:
    return Members(
        gone=tuple(name for name in before if name not in after),
        new=tuple(name for name in after if name not in before),
        changed={name: changes for name, changes in changed.items() if changes},
        total=len(after),
    )


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    names = dict.fromkeys([*after, *before])
    found = (Change(name, before.get(name), after.get(name)) for name in names)
    return tuple(change for change in found if change.before != change.after)


def _whole(plan: Plan) -> dict[str, Any]:
    return dict(_leaves(plan.model_dump(mode="json", exclude={"hosts", "processes"})))


def _host(host: PlanHost) -> dict[str, Any]:
    return dict(_leaves(host.model_dump(mode="json", exclude={"host"})))


def _process(process: Process, fields: AbstractSet[str]) -> dict[str, Any]:
    """Give the values behind some fields of a process, in the words of ``Change.what``."""
    values: dict[str, Any] = {}
    if "argv" in fields:
        program, flags = split(process.argv)
        values |= {"program": shlex.join(program), **{name: _words(words) for name, words in flags.items()}}
    if "env" in fields:
        values |= {f"env {name}": shown(value) for name, value in process.env.items()}
    if "env_prepend" in fields:
        values |= {f"search path {name}": ":".join(paths) for name, paths in process.env_prepend.items()}
    return values | dict(_leaves(process.model_dump(mode="json", include=set(fields - _APART))))


def _words(words: tuple[str, ...]) -> Any:
    return shlex.join(words) if words else SWITCH


def shown(value: str | SecretRef) -> str:
    """Write the value of a variable; a secret as a profile does, ``${env:NAME}``."""
    return f"${{env:{value.variable}}}" if isinstance(value, SecretRef) else value


def _leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten mappings to dotted names; lists and what is absent count as they are."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{name}.")
        elif value is not None and value != []:
            yield f"{above}{name}", value


def alike(changed: Mapping[str, tuple[Change, ...]]) -> Iterable[tuple[list[str], list[tuple[Change, ...]]]]:
    """Put together those members in which the same things changed, whatever from and to.

    Returns:
        Names, and for each of the things what changed in each of the names.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, changes in changed.items():
        groups.setdefault(tuple(change.what for change in changes), []).append(name)
    return ((names, list(zip(*(changed[name] for name in names), strict=True))) for names in groups.values())
