"""Files of a lab: the client's home with key, known_hosts and ssh configuration, and what sshd needs on a host."""

from __future__ import annotations

import functools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import asyncssh

SSHD = "/usr/sbin/sshd"
SSHD_CONFIG = "/etc/ssh/lab_sshd_config"
SSHD_COMMAND = (SSHD, "-f", SSHD_CONFIG, "-E", "/var/log/sshd.log")
HOST_KEY = "/etc/ssh/lab_host_key"
SHELL_FILES = (".bashrc", ".profile", ".bash_profile", ".bash_login", ".bash_logout")


@dataclass(frozen=True)
class KeyPair:
    """An ed25519 key as the two files hold it."""

    private: str
    public: str


@functools.cache
def key_pair(name: str) -> KeyPair:
    """Give the key of that name, made once per process."""
    return new_key(name)


def new_key(comment: str) -> KeyPair:
    """Make a key."""
    key = asyncssh.generate_private_key("ssh-ed25519", comment=comment)
    return KeyPair(key.export_private_key().decode(), key.export_public_key().decode())


@functools.cache
def _openssh_version() -> tuple[int, int]:
    said = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False).stderr
    found = re.search(r"OpenSSH_(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def address(number: int) -> str:
    """Give the IPv4 address of the host of that number, from 1 on: 250 of them in each 10.77.N.0/24."""
    block, last = divmod(number - 1, 250)
    return f"10.77.{block}.{last + 1}"


def sshd_config(max_startups: str, extra: str) -> str:
    """Write the configuration of sshd."""
    lines = [
        extra,
        f"HostKey {HOST_KEY}",
        "AuthorizedKeysFile /etc/ssh/lab_authorized_keys",
        "PidFile /run/sshd.pid",
        "StrictModes no",
        "UsePAM no",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UseDNS no",
        "PrintMotd no",
        "LogLevel VERBOSE",
        f"MaxStartups {max_startups}",
        "MaxSessions 100",
    ]
    if _openssh_version() >= (9, 8):
        lines.append("PerSourcePenalties no")
    return "\n".join(lines) + "\n"


def host_files(name: str, client: KeyPair, config: str, etc_hosts: str) -> dict[str, tuple[int, str]]:
    """Give the files that make a host out of a copy of this machine: path → mode and text."""
    shadow = Path("/etc/shadow").read_text(encoding="utf-8")
    return {
        SSHD_CONFIG: (0o600, config),
        HOST_KEY: (0o600, key_pair(name).private),
        "/etc/ssh/lab_authorized_keys": (0o644, client.public),
        "/etc/hostname": (0o644, f"{name}\n"),
        "/etc/hosts": (0o644, etc_hosts),
        # Without PAM, sshd takes a password that begins with "!" for a locked account, keys or not.
        "/etc/shadow": (0o600, re.sub(r"^root:!+", "root:*", shadow, flags=re.MULTILINE)),
        # The account's start-up files belong to the machine that the tests run on, not to the hosts.
        **{f"/root/{file}": (0o644, "") for file in SHELL_FILES},
    }


def write_home(home: Path, client: KeyPair, hosts: list[tuple[str, str, str]]) -> None:
    """Write ``.ssh`` of the client.

    Args:
        home: its home folder.
        client: its key.
        hosts: name, address and IPv6 address of each host.
    """
    folder = home / ".ssh"
    folder.mkdir(mode=0o700, parents=True)
    (folder / "id_ed25519").write_text(client.private, encoding="utf-8")
    (folder / "id_ed25519").chmod(0o600)
    (folder / "id_ed25519.pub").write_text(client.public, encoding="utf-8")
    (folder / "known_hosts").write_text(
        "".join(f"{name},{v4},{v6} {key_pair(name).public}" for name, v4, v6 in hosts), encoding="utf-8"
    )
    (folder / "config").write_text(
        "".join(f"Host {name}\n  HostName {v4}\n  User root\n" for name, v4, _ in hosts), encoding="utf-8"
    )
