"""Which hosts ``hosts:`` means, with and without an inventory."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgdeploy.profile.inventory import Host, HostDefaults, Inventory
from sgdeploy.profile.parts import Hosts
from sgdeploy.profile.select import Spec, select

PATH = ("native", "hosts")
KNOWN = Inventory(
    hosts={
        "n1": Host("n1", "n1.lab", "10.0.0.1", user="root"),
        "n2": Host("n2", "n2", "10.0.0.2", nic="eth1"),
        "gw": Host("gw", "gw", "gw", port=2222),
    },
    groups={"all": ("n1", "n2"), "edge": ("gw",)},
    defaults=HostDefaults(connection="local", user="ops", nic="eth0", ib_devices=("r0",)),
)


def names(spec: Spec, inventory: Inventory | None = KNOWN) -> list[str]:
    hosts, problems = select(inventory, spec, PATH)
    assert problems == ()
    return [host.name for host in hosts]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("all", ["n1", "n2"]),
        (" all ", ["n1", "n2"]),
        ("gw, all", ["gw", "n1", "n2"]),
        (["all", "gw"], ["n1", "n2", "gw"]),
        (["gw", "n[1-2]"], ["gw", "n1", "n2"]),
        ("10.0.0.2", ["n2"]),
        ("10.0.0. | 1-3", ["n1", "n2", "10.0.0.3"]),
        ("fd00::7", ["fd00::7"]),
    ],
)
def test_groups_names_addresses_and_ranges(spec: Spec, expected: list[str]) -> None:
    assert names(spec) == expected


def test_without_an_inventory_every_name_is_a_host() -> None:
    assert names("a, b[1-2]", None) == ["a", "b1", "b2"]
    hosts, _ = select(None, "a", PATH)
    assert hosts == (Host("a", "a", "a"),)


def test_an_inventory_that_lists_nobody_gives_its_defaults() -> None:
    hosts, problems = select(Inventory(defaults=KNOWN.defaults), "a", PATH)
    assert problems == ()
    assert hosts == (Host("a", "a", "a", "local", "ops", None, "eth0", ("r0",)),)


def test_hosts_beyond_the_inventory_take_its_defaults() -> None:
    hosts, _ = select(KNOWN, "10.0.0.9", PATH)
    assert (hosts[0].user, hosts[0].connection) == ("ops", "local")


def told(spec: Spec) -> list[tuple[str, str | None, tuple[str | int, ...], tuple[int, int] | None]]:
    return [(one.message, one.hint, one.path, one.span) for one in select(KNOWN, spec, PATH)[1]]


def test_an_unknown_name_is_guessed() -> None:
    message = "`edgee` is neither a host nor a group of the inventory"
    assert told(["all", "gw, edgee"]) == [(message, "did you mean `edge`?", (*PATH, 1), (4, 5))]


def test_a_host_that_comes_twice_is_told_with_both_sources() -> None:
    message = "host `n1` is named twice: by group `all` and by `10.0.0.1`"
    assert told(["all", "10.0.0.1"]) == [(message, "name each host once", (*PATH, 1), (0, 8))]


def test_a_range_that_leaves_the_inventory_is_a_warning() -> None:
    hosts, problems = select(KNOWN, "n[1-4]", PATH)
    assert [host.name for host in hosts] == ["n1", "n2", "n3", "n4"]
    assert [(one.level, one.message) for one in problems] == [
        ("warning", "`n3` and 1 more of this range are not in the inventory; taken as host names")
    ]


def test_no_hosts_at_all() -> None:
    assert [one.message for one in select(KNOWN, [], PATH)[1]] == ["no hosts are named"]


def test_a_file_of_hosts(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("# first rack\nn1\n\n10.0.0. | 5-6  # later\r\n  n2  \n")
    hosts, problems = select(KNOWN, Hosts(file="hosts.txt"), PATH, tmp_path)
    assert problems == ()
    assert [host.name for host in hosts] == ["n1", "10.0.0.5", "10.0.0.6", "n2"]
    assert select(KNOWN, {"file": str(tmp_path / "hosts.txt")}, PATH) == (hosts, ())


def test_problems_of_a_file_stand_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("n1\n  n[2-1]\nn1\n")
    _, problems = select(None, Hosts(file="hosts.txt"), PATH, tmp_path)
    found = [(one.place.line, one.place.column, one.message) for one in problems if one.place]
    assert found == [(2, 5, "reversed range `2-1`"), (3, 1, "duplicate host `n1`; the first is on line 1")]


def test_a_missing_file_stands_at_its_name(tmp_path: Path) -> None:
    _, problems = select(None, Hosts(file="hosts.txt"), PATH, tmp_path)
    assert [(one.path, one.place, one.code) for one in problems] == [((*PATH, "file"), None, "file-missing")]
