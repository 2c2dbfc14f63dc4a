"""What ``~/.ssh/config`` makes of a name."""

from __future__ import annotations

import getpass
from pathlib import Path

import pytest

from sgdeploy.remote.target import Hop, Target, parse_hop, resolve


def look_up(home: Path, text: str, alias: str = "n01", user: str | None = None, port: int | None = None) -> Target:
    folder = home / ".ssh"
    folder.mkdir(exist_ok=True)
    (folder / "config").write_text(text, encoding="utf-8")
    return resolve(alias, user=user, port=port, config=folder / "config")


def test_without_a_configuration_the_name_is_the_host(home: Path) -> None:
    target = resolve("n01", user=None, port=None, config=home / "absent")
    assert (target.host, target.port, target.user, target.jumps) == ("n01", 22, getpass.getuser(), ())
    assert target.user_known_hosts[0] == home / ".ssh/known_hosts"
    assert target.global_known_hosts[0] == Path("/etc/ssh/ssh_known_hosts")
    assert target.where == "n01 port 22"


def test_alias_user_and_port_come_from_the_configuration(home: Path) -> None:
    target = look_up(home, "Host n01\n  HostName 10.0.0.1\n  User ops\n  Port 2222\nHost *\n  User nobody\n")
    assert (target.host, target.port, target.user) == ("10.0.0.1", 2222, "ops")
    assert target.where == "n01 (10.0.0.1 port 2222)"
    assert target.known_as == "[10.0.0.1]:2222"


def test_the_inventory_comes_before_the_configuration(home: Path) -> None:
    target = look_up(home, "Host n01\n  User ops\n  Port 2222\n", user="root", port=22)
    assert (target.port, target.user) == (22, "root")


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("Host n01\n  User ops\n", False),
        ("Match host n01\n  User ops\n", False),
        ("Match final host n01\n  User ops\n", True),
        ("CanonicalizeHostname yes\n", True),
    ],
)
def test_a_configuration_is_read_again_only_where_the_connection_may_change_it(
    home: Path, text: str, *, again: bool
) -> None:
    assert (look_up(home, text).settings is None) == again


def test_included_files_count(home: Path) -> None:
    (home / ".ssh/conf.d").mkdir(parents=True)
    (home / ".ssh/conf.d/lab").write_text("Host n01\n  HostName 10.0.0.7\n", encoding="utf-8")
    assert look_up(home, "Include conf.d/*\nHost *\n  User ops\n").host == "10.0.0.7"


def test_keys_that_are_absent_are_left_out(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh/lab").touch()
    target = look_up(home, "Host *\n  IdentityFile ~/.ssh/gone\n  IdentityFile ~/.ssh/lab\n")
    assert target.keys == (home / ".ssh/lab",)


@pytest.mark.parametrize(
    ("text", "jumps"),
    [
        ("Host n01\n  ProxyJump gw\n", ("gw",)),
        ("Host n01\n  ProxyJump ops@gw:2222,inner\n", ("ops@gw:2222", "inner")),
        ("Host n01\n  ProxyJump none\nHost *\n  ProxyJump gw\n", ()),
        ("Host gw\n  ProxyJump none\nHost *\n  ProxyJump gw\n", ("gw",)),
    ],
)
def test_jump_hosts(home: Path, text: str, jumps: tuple[str, ...]) -> None:
    assert look_up(home, text).jumps == jumps


@pytest.mark.parametrize(
    ("value", "command"), [("none", ""), ("nc %h %p", "nc n01 22"), ("sh -c 'a; b'", "sh -c 'a; b'")]
)
def test_a_proxy_command_stays_one_line_of_shell(home: Path, value: str, command: str) -> None:
    assert look_up(home, f"Host *\n  ProxyCommand {value}\n").proxy_command == command


def test_known_hosts_files_of_the_configuration(home: Path) -> None:
    target = look_up(home, "Host *\n  UserKnownHostsFile ~/lab_hosts /x/y\n  GlobalKnownHostsFile none\n")
    assert target.user_known_hosts == (home / "lab_hosts", Path("/x/y"))
    assert target.global_known_hosts == ()


def test_no_known_hosts_file_is_not_the_same_as_no_check(home: Path) -> None:
    assert look_up(home, "Host *\n  UserKnownHostsFile none\n").user_known_hosts == ()


def test_a_broken_configuration_is_named_with_its_line(home: Path) -> None:
    with pytest.raises(ValueError, match=r"\.ssh/config line 2: Invalid Port integer value: many"):
        look_up(home, "Host n01\n  Port many\n")


@pytest.mark.parametrize(
    ("text", "hop"),
    [
        ("gw", Hop("gw")),
        ("ops@gw", Hop("gw", "ops")),
        ("ops@corp@gw:2222", Hop("gw", "ops@corp", 2222)),
        ("[fd77::1]:2222", Hop("fd77::1", None, 2222)),
        ("ops@[fd77::1]", Hop("fd77::1", "ops")),
        ("fd77::1", Hop("fd77::1")),
        ("ssh://ops@gw:22/", Hop("gw", "ops", 22)),
    ],
)
def test_hops(text: str, hop: Hop) -> None:
    assert parse_hop(text) == hop


def test_a_hop_with_a_strange_port() -> None:
    with pytest.raises(ValueError, match="many"):
        parse_hop("gw:many")
