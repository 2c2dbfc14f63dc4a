"""Inventories: files, inline, and what a host is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgdeploy.profile.inventory import Host, Inventory
from sgdeploy.profile.load import Draft, draft

HEAD = "version: 1\nname: x\ntopology: native\nplatform: cpu\nmodel: {path: /m}\n"
FULL = """
version: 1
ssh: {user: root, port: 2200, known_hosts: off}
defaults: {nic: eth0, ib_devices: [r0, r1]}
groups:
  rack1: "10.0.0. | 1-2"
  rack2: "node[01-02]"
  mixed: [node02, {host: gw1, ssh: gw1.lab, address: 10.0.0.250, user: ops, sudo: true}, "10.0.0. | 2"]
  listed: {file: listed.txt}
hosts:
  - {host: "node[01-02]", nic: eth9, connection: local}
  - spare
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inv").mkdir()
    Path("inv/inv.yaml").write_text(FULL.lstrip())
    Path("inv/listed.txt").write_text("l1\nl2\n")


def read(text: str) -> Draft:
    Path("p.yaml").write_text(HEAD + text)
    return draft(Path("p.yaml"))


def inventory(one: Draft) -> Inventory:
    assert [problem.message for problem in one.problems] == []
    assert one.inventory is not None
    return one.inventory


def test_a_whole_inventory() -> None:
    one = read("inventory: inv/inv.yaml\nnative: {hosts: mixed}\n")
    found = inventory(one)
    assert found.groups == {
        "rack1": ("10.0.0.1", "10.0.0.2"),
        "rack2": ("node01", "node02"),
        "mixed": ("node02", "gw1", "10.0.0.2"),
        "listed": ("l1", "l2"),
    }
    assert list(found.hosts) == ["10.0.0.1", "10.0.0.2", "node01", "node02", "gw1", "l1", "l2", "spare"]
    assert found.known_hosts == "off"
    devices = ("r0", "r1")
    assert found.hosts["gw1"] == Host("gw1", "gw1.lab", "10.0.0.250", "ssh", "ops", 2200, "eth0", devices, sudo=True)
    assert found.hosts["node02"] == Host("node02", "node02", "node02", "local", "root", 2200, "eth9", devices)
    assert [host.name for host in found.hosts.values() if host.sudo] == ["gw1"]
    assert [host.name for host in one.hosts["native", "hosts"]] == ["node02", "gw1", "10.0.0.2"]
    assert [path.name for path in one.files] == ["p.yaml", "inv.yaml", "listed.txt"]


def test_no_inventory_is_an_empty_one() -> None:
    one = read("native: {hosts: [a, b]}\n")
    assert inventory(one) == Inventory()
    assert one.hosts["native", "hosts"] == (Host("a", "a", "a"), Host("b", "b", "b"))


def test_an_inventory_in_the_profile() -> None:
    one = read("inventory:\n  defaults: {connection: local}\n  groups: {g: [a, b]}\nnative: {hosts: g}\n")
    assert inventory(one).groups == {"g": ("a", "b")}
    assert [host.connection for host in one.hosts["native", "hosts"]] == ["local", "local"]
    assert one.profile is not None


def test_the_files_of_a_parent_are_found_beside_the_parent() -> None:
    Path("base").mkdir()
    Path("base/inv.yaml").write_text("version: 1\ngroups: {g: {file: hosts.txt}}\n")
    Path("base/hosts.txt").write_text("b1\n")
    Path("base/base.yaml").write_text("inventory: inv.yaml\nnative: {other: ~, hosts: {file: hosts.txt}}\n")
    one = read("extends: base/base.yaml\n")
    inventory(one)
    assert [host.name for host in one.hosts["native", "hosts"]] == ["b1"]
    names = [path.relative_to(Path.cwd()).as_posix() for path in one.files]
    assert names == ["p.yaml", "base/base.yaml", "base/inv.yaml", "base/hosts.txt"]


def test_profile_inventory_and_selection_problems_come_together() -> None:
    Path("inv/inv.yaml").write_text('version: 1\nshs: {}\ngroups: {rack1: "n[1-2]"}\n')
    one = read("inventory: inv/inv.yaml\nnative: {hosts: rack, prt: 1}\n")
    assert [f"{problem.place}: {problem.message}" for problem in one.problems] == [
        "p.yaml:7:17: `rack` is neither a host nor a group of the inventory",
        "p.yaml:7:23: unknown key `prt` in `native`",
        "inv/inv.yaml:2:1: unknown key `shs`",
    ]
    assert one.inventory is None
    assert one.profile is None


def test_what_a_broken_group_would_have_held_is_not_called_unknown() -> None:
    Path("inv/inv.yaml").write_text('version: 1\ngroups: {rack1: "n[1-2", Rack2: m1}\n')
    one = read("inventory: inv/inv.yaml\nnative: {hosts: [n1, m1, rack1]}\n")
    codes = [problem.code for problem in one.problems]
    assert codes == ["host-range", "key-name"]
    assert one.hosts == {}


def test_problems_of_an_inventory_file_say_that_they_are_about_the_inventory() -> None:
    Path("inv/inv.yaml").write_text("version: 1\ndefaults: {nic: 7}\n")
    one = read("inventory: inv/inv.yaml\nnative: {hosts: a}\n")
    assert [problem.path for problem in one.problems] == [("inventory", "defaults", "nic")]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ('"[fd00::1]"', "an IPv6 address in brackets: `[fd00::1]`"),
        ("10.0.0.1:22", "`10.0.0.1:22` is no host name"),
        ("10.0.0.300", "octet above 255 in `10.0.0.300`"),
        ("a b", "`a b` is 2 addresses"),
    ],
)
def test_a_data_address_is_one_name_or_address(address: str, message: str) -> None:
    one = read(f"inventory:\n  hosts:\n    - {{host: a, address: {address}}}\nnative: {{hosts: a}}\n")
    assert [(problem.message, problem.path) for problem in one.problems] == [
        (message, ("inventory", "hosts", 0, "address"))
    ]


def test_named_instances_have_hosts_of_their_own() -> None:
    one = read(
        "inventory: inv/inv.yaml\nnative: {a: {hosts: rack1}, b: {hosts: [rack2, {x: 1}]}, c: {hosts: nobody}}\n"
    )
    assert list(one.hosts) == [("native", "a", "hosts")]
    assert [problem.message for problem in one.problems] == [
        "`native.b.hosts[1]` must be text, got a mapping",
        "`nobody` is neither a host nor a group of the inventory",
    ]


@pytest.mark.parametrize(
    ("host", "detail", "places"),
    [
        ("10.0.0.1", "nic", ["inv/inv.yaml:3:12", "inv/inv.yaml:5:3"]),
        ("10.0.0.1", "port", ["inv/inv.yaml:2:19", "inv/inv.yaml:5:3"]),
        ("node01", "nic", ["inv/inv.yaml:10:27", "inv/inv.yaml:3:12", "inv/inv.yaml:6:3"]),
        ("node02", "connection", ["inv/inv.yaml:10:38", "inv/inv.yaml:6:3"]),
        ("gw1", "address", ["inv/inv.yaml:7:45", "inv/inv.yaml:7:20"]),
        ("gw1", "user", ["inv/inv.yaml:7:66", "inv/inv.yaml:2:7", "inv/inv.yaml:7:20"]),
        ("l2", "address", ["inv/inv.yaml:8:12"]),
        ("spare", "address", ["inv/inv.yaml:11:5"]),
        ("10.9.9.9", "nic", ["inv/inv.yaml:3:12"]),
    ],
)
def test_each_detail_of_a_host_knows_its_place(host: str, detail: str, places: list[str]) -> None:
    one = read("inventory: inv/inv.yaml\nnative: {hosts: rack1}\n")
    found = [one.places.key(("inventory", *path)) for path in inventory(one).where(host, detail)]
    assert [str(place) for place in found if place is not None] == places
    assert str(one.places.key(("inventory",))) == "p.yaml:6:1"


def test_an_inventory_in_the_profile_knows_its_places_too() -> None:
    one = read("inventory:\n  defaults: {nic: eth0}\n  hosts: [a]\nnative: {hosts: a}\n")
    found = [str(one.places.key(("inventory", *path))) for path in inventory(one).where("a", "nic")]
    assert found == ["p.yaml:7:14", "p.yaml:8:11"]
