"""Which hosts an instance's ``hosts`` means: groups, names, ranges, lists of those, or a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sgdeploy.problems import Problem
from sgdeploy.profile.hosts import HostRangeError, Named, scan
from sgdeploy.profile.hosts_file import read_hosts
from sgdeploy.profile.inventory import Host, Inventory
from sgdeploy.profile.parts import Hosts
from sgdeploy.profile.suggest import did_you_mean

if TYPE_CHECKING:
    from sgdeploy.problems import KeyPath

Spec: TypeAlias = "str | Sequence[str] | Hosts | Mapping[str, Any]"


def select(
    inventory: Inventory | None, spec: Spec, path: KeyPath, base_dir: Path | None = None
) -> tuple[tuple[Host, ...], tuple[Problem, ...]]:
    """Find the hosts that a specification means, in order.

    A bare name must be a host or group of the inventory; addresses and ranges may go beyond it, and take its defaults.
    An inventory that lists nobody (or None) lets every name through.

    Args:
        inventory: who is known.
        spec: what stands in the profile, validated or raw.
        path: where it stands; problems are about this path or one of its items.
        base_dir: what a relative ``file`` counts from; the working folder where None.

    Returns:
        The hosts, each once, and the problems: unknown and duplicate hosts, broken ranges, unreadable files.
    """
    picked = _Picked(inventory or Inventory())
    if isinstance(spec, str):
        picked.text(spec, path)
    elif isinstance(spec, Hosts):
        picked.file(spec.file, (*path, "file"), base_dir)
    elif isinstance(spec, Mapping):
        picked.file(str(spec["file"]), (*path, "file"), base_dir)
    else:
        for index, item in enumerate(spec):
            if isinstance(item, str):  # the schema tells of other items
                picked.text(item, (*path, index))
        if not spec:
            hint = "name a group, hosts or a range"
            picked.problems.append(Problem("no hosts are named", hint, path, code="host-range"))
    return tuple(picked.hosts.values()), tuple(picked.problems)


@dataclass
class _Picked:
    """The hosts picked so far; the source of each, for the message about a second one."""

    inventory: Inventory
    hosts: dict[str, Host] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def text(self, text: str, path: KeyPath) -> None:
        if text.strip() in self.inventory.groups:
            self._group(text.strip(), path, None)
            return
        try:
            found = scan(text)
        except HostRangeError as error:
            span = (error.offset, error.width)
            self.problems.append(Problem(error.message, error.hint, path, code="host-range", span=span))
            return
        beyond: dict[tuple[int, int], list[str]] = {}
        for one in found:
            if one.name in self.inventory.groups and one.kind == "name":
                self._group(one.name, path, (one.offset, one.width))
            elif self._one(one, path) and one.kind == "range":
                beyond.setdefault((one.offset, one.width), []).append(one.name)
        for span, names in beyond.items():
            self._warn_beyond(names, path, span)

    def file(self, file: str, path: KeyPath, base_dir: Path | None) -> None:
        found, problems, _ = read_hosts(str((base_dir or Path()) / file), path)
        self.problems += problems
        for one in found:
            host = self.inventory.find(one.name) or self.inventory.defaults.host(one.name)
            self._add(host, path, None, f"file {file}")

    def _group(self, name: str, path: KeyPath, span: tuple[int, int] | None) -> None:
        for host in self.inventory.groups[name]:
            self._add(self.inventory.hosts[host], path, span, f"group `{name}`")

    def _one(self, one: Named, path: KeyPath) -> bool:
        """Take one name; tell whether the inventory, though it lists hosts, does not list this one."""
        known = self.inventory.find(one.name)
        span = (one.offset, one.width)
        if known is None and one.kind == "name" and self.inventory.names_hosts:
            guess = did_you_mean(one.name, [*self.inventory.groups, *self.inventory.hosts])
            hint = f"did you mean `{guess}`?" if guess else self._who()
            text = f"`{one.name}` is neither a host nor a group of the inventory"
            self.problems.append(Problem(text, hint, path, code="host-unknown", span=span))
            return False
        self._add(known or self.inventory.defaults.host(one.name), path, span, f"`{one.name}`")
        return known is None and self.inventory.names_hosts

    def _who(self) -> str:
        groups = ", ".join(self.inventory.groups)
        return f"groups are: {groups}" if groups else "add it to the inventory"

    def _add(self, host: Host, path: KeyPath, span: tuple[int, int] | None, source: str) -> None:
        if host.name in self.hosts:
            text = f"host `{host.name}` is named twice: by {self.sources[host.name]} and by {source}"
            problem = Problem(text, "name each host once", path, code="host-duplicate", span=span)
            self.problems.append(problem)
            return
        self.hosts[host.name] = host
        self.sources[host.name] = source

    def _warn_beyond(self, names: list[str], path: KeyPath, span: tuple[int, int]) -> None:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        text = f"`{names[0]}`{more} of this range {'are' if more else 'is'} not in the inventory; taken as host names"
        hint = "add them to the inventory, or mend the range"
        self.problems.append(Problem(text, hint, path, level="warning", code="host-beyond", span=span))
