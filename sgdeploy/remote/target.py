"""Where a name leads: what ``~/.ssh/config`` says of it, read once before anything is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncssh

if TYPE_CHECKING:
    from collections.abc import Sequence

USER_KNOWN_HOSTS: Final = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_KNOWN_HOSTS: Final = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
DEFAULT_KEYS: Final = ("id_ed25519_sk", "id_ecdsa_sk", "id_ed448", "id_ed25519", "id_ecdsa", "id_rsa", "id_dsa")
"""In the order in which asyncssh tries them when the configuration names none."""


@dataclass(frozen=True)
class Target:
    """One SSH server, as the configuration describes it.

    Attributes:
        alias: the name as given, which the configuration is looked up by.
        host: name or address that is connected to.
        port: TCP port.
        user: who logs in.
        jumps: names of the hosts to go through, in order; () for a direct connection.
        proxy_command: command whose stdin and stdout are the connection, "" for none; ``jumps`` comes before it.
        config: the configuration file, or None where there is none.
        keys: private key files that exist, in the order they are tried; () for the default ones.
        key_types_set: whether the configuration itself says which types of host keys to ask for.
        ciphers_set: whether the configuration itself says how to encrypt.
        key_alias: the name that host keys are looked up by (``HostKeyAlias``).
        user_known_hosts: files of the user, the first of which new keys belong into.
        global_known_hosts: files of the machine.
        settings: all that the configuration says, as asyncssh takes it, so that it is not read again for the connection
            (6 ms for 256 hosts that have an entry each); None where it must be (``Match final``, canonical names).
    """

    alias: str
    host: str
    port: int
    user: str
    jumps: tuple[str, ...] = ()
    proxy_command: str = ""
    config: Path | None = None
    keys: tuple[Path, ...] = ()
    key_types_set: bool = False
    ciphers_set: bool = False
    key_alias: str | None = None
    user_known_hosts: tuple[Path, ...] = ()
    global_known_hosts: tuple[Path, ...] = ()
    settings: asyncssh.SSHClientConnectionOptions | None = field(default=None, repr=False, compare=False)

    @property
    def where(self) -> str:
        """``host port 22``, with the alias where it differs."""
        named = f"{self.host} port {self.port}"
        return named if self.alias == self.host else f"{self.alias} ({named})"

    @property
    def login(self) -> str:
        """``user@host`` as a shell command takes it."""
        return f"{self.user}@{self.host}"

    @property
    def known_as(self) -> str:
        """The name that a known_hosts line must begin with."""
        name = self.key_alias or self.host
        return name if self.port == asyncssh.DEFAULT_PORT else f"[{name}]:{self.port}"


def resolve(alias: str, *, user: str | None, port: int | None, config: Path) -> Target:
    """Look a name up in the SSH configuration; reads files, opens nothing.

    Args:
        alias: as the inventory gives it.
        user: of the inventory; comes before the configuration.
        port: of the inventory; comes before the configuration.
        config: the user's configuration file; need not exist.

    Raises:
        ValueError: the configuration does not parse; the message names file and line.
        OSError: it cannot be read.
    """
    present = config if config.is_file() else None
    options = asyncssh.SSHClientConnectionOptions(
        config=[present] if present else None,
        host=alias,
        username=user if user is not None else (),
        port=port if port is not None else (),
        client_keys=None,
    )
    settings = options.config
    is_final = not settings.has_match_final() and not options.canonicalize_hostname
    jumps = settings.get("ProxyJump")
    proxy_command = settings.get("ProxyCommand")
    return Target(
        alias=alias,
        host=options.host,
        port=options.port,
        user=options.username,
        jumps=tuple(part.strip() for part in jumps.split(",")) if isinstance(jumps, str) else (),
        proxy_command=proxy_command if isinstance(proxy_command, str) and proxy_command != "none" else "",
        config=present,
        keys=tuple(path for path in _paths(settings.get("IdentityFile")) if path.is_file()),
        key_types_set=settings.get("HostKeyAlgorithms") is not None,
        ciphers_set=settings.get("Ciphers") is not None,
        key_alias=options.host_key_alias,
        user_known_hosts=_paths(settings.get("UserKnownHostsFile", USER_KNOWN_HOSTS)),
        global_known_hosts=_paths(settings.get("GlobalKnownHostsFile", GLOBAL_KNOWN_HOSTS)),
        settings=options if is_final else None,
    )


def _paths(value: object) -> tuple[Path, ...]:
    names: Sequence[object] = value if isinstance(value, (list, tuple)) else ()
    return tuple(Path(str(name)).expanduser() for name in names)


@dataclass(frozen=True)
class Hop:
    """One host of a ``ProxyJump`` line, taken apart: ``[user@]host[:port]`` or an ``ssh://`` address."""

    host: str
    user: str | None = None
    port: int | None = None


def parse_hop(text: str) -> Hop:
    """Take one word of a ``ProxyJump`` line apart; an IPv6 address with a port stands in brackets.

    Raises:
        ValueError: the port is not a number.
    """
    user, _, rest = text.removeprefix("ssh://").rstrip("/").rpartition("@")
    host, port = rest, ""
    if rest.startswith("["):
        host, _, port = rest[1:].partition("]")
        port = port.removeprefix(":")
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    return Hop(host, user or None, int(port) if port else None)
