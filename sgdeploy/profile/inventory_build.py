"""From what an inventory file says to hosts and groups, with every problem at its place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sgdeploy.problems import Problem
from sgdeploy.profile.hosts import HostRangeError, Named, scan
from sgdeploy.profile.hosts_file import read_hosts
from sgdeploy.profile.inventory import Host, HostDefaults, Inventory
from sgdeploy.profile.inventory_schema import HostEntry, InventorySection
from sgdeploy.profile.parts import Hosts

if TYPE_CHECKING:
    from pathlib import Path

    from sgdeploy.problems import KeyPath

_DETAILS = ("ssh", "address", "user", "port", "sudo", "connection", "nic", "ib_devices")


def build(section: InventorySection) -> tuple[Inventory, tuple[Problem, ...], tuple[Path, ...]]:
    """Make the inventory.

    Returns:
        The inventory (with what could be understood), the problems with paths from the top of the inventory, and the
        host files that were read.
    """
    work = _Work(section)
    for name, spec in section.groups.items():
        work.group(name, spec)
    for index, entry in enumerate(section.hosts):
        work.entry(entry, ("hosts", index))
    work.refuse_shared_names()
    hosts = {name: work.host(name) for name in work.details}
    inventory = Inventory(hosts, work.groups, section.ssh.known_hosts, work.defaults, work.keys)
    return inventory, tuple(work.problems), tuple(work.files)


@dataclass
class _Work:
    """What has been understood so far."""

    section: InventorySection
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, dict[str, KeyPath]] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    @property
    def defaults(self) -> HostDefaults:
        ssh, some = self.section.ssh, self.section.defaults
        devices = None if some.ib_devices is None else tuple(some.ib_devices)
        return HostDefaults(some.connection, ssh.user, ssh.port, some.nic, devices, ssh.sudo)

    def host(self, name: str) -> Host:
        return replace(self.defaults.host(name), **self.details[name])

    def group(self, name: str, spec: str | list[str | HostEntry] | Hosts) -> None:
        path: KeyPath = ("groups", name)
        names: list[str] = []
        if isinstance(spec, str):
            names = self._text(spec, path)
        elif isinstance(spec, Hosts):
            found, problems, file = read_hosts(spec.file, (*path, "file"))
            self.problems += problems
            self.files += [file]
            names = [one.name for one in found]
            self._know(names, (*path, "file"))
        else:
            for index, entry in enumerate(spec):
                added = self.entry(entry, (*path, index))
                twice = sorted(set(added) & set(names))
                if twice:
                    text = f"host `{twice[0]}` is in group `{name}` twice"
                    self.problems.append(Problem(text, "name it once", (*path, index), code="host-duplicate"))
                names += [one for one in added if one not in names]
            if not spec:
                text = f"group `{name}` has no hosts"
                self.problems.append(Problem(text, "name its hosts or remove it", path, at="key", code="host-range"))
        self.groups[name] = tuple(names)

    def entry(self, entry: str | HostEntry, path: KeyPath) -> list[str]:
        """Take one host or range, with or without details; give the names."""
        if isinstance(entry, str):
            return self._text(entry, path)
        where = (*path, "host")
        names = self._text(entry.host, where)
        if len(names) > 1 and (entry.ssh or entry.address):
            text = f"`{entry.host}` names {len(names)} hosts, which cannot share one ssh name or address"
            self.problems.append(Problem(text, "write an entry for each", where, code="host-details"))
            return names
        for name in names:
            self._describe(name, entry, path)
        return names

    def _describe(self, name: str, entry: HostEntry, path: KeyPath) -> None:
        known = self.details[name]
        for key in _DETAILS:
            value = getattr(entry, key)
            if value is None:
                continue
            value = tuple(value) if isinstance(value, list) else value
            value = self._address(str(value), (*path, key)) if key == "address" else value
            if key in known and known[key] != value:
                text = f"`{key}` of host `{name}` is {value} here and {known[key]} in an entry above"
                self.problems.append(Problem(text, "describe a host once", (*path, key), code="host-details"))
            known.setdefault(key, value)
            self.keys[name].setdefault(key, (*path, key))

    def _address(self, text: str, path: KeyPath) -> str:
        """Take a data address: one name or address, in its one spelling."""
        names = [one.name for one in self._scan(text, path)]
        if len(names) > 1:
            problem = Problem(f"`{text}` is {len(names)} addresses", "a host has one", path, code="host-details")
            self.problems.append(problem)
        return names[0] if names else text

    def _text(self, text: str, path: KeyPath) -> list[str]:
        names = [one.name for one in self._scan(text, path)]
        self._know(names, path)
        return names

    def _scan(self, text: str, path: KeyPath) -> list[Named]:
        try:
            return scan(text)
        except HostRangeError as error:
            span = (error.offset, error.width)
            self.problems.append(Problem(error.message, error.hint, path, code="host-range", span=span))
            return []

    def _know(self, names: list[str], path: KeyPath) -> None:
        for name in names:
            self.details.setdefault(name, {})
            self.keys.setdefault(name, {"name": path})

    def refuse_shared_names(self) -> None:
        for name in self.groups:
            if name in self.details:
                text = f"`{name}` is both a group and a host"
                hint = "groups hold hosts, not groups; rename one of them"
                self.problems.append(Problem(text, hint, ("groups", name), at="key", code="host-group-name"))
