"""Host keys: which ones are trusted for a target, and what to say when the presented one is not."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sgdeploy.remote.target import Target

Verdict: TypeAlias = Literal["unknown", "changed", "revoked"]


@dataclass(frozen=True)
class Trust:
    """The keys that the known_hosts files hold for one target.

    Attributes:
        known: the parsed files, as asyncssh takes them.
        algorithms: types of the keys that are recorded for the target (``ssh-ed25519``), sorted.
        preferred: signature algorithms to ask the server for: those that the recorded keys can answer first, then all
            others, so that a host with several keys shows one that we know, and a changed host shows its new one;
            () where nothing is recorded.
    """

    known: asyncssh.SSHKnownHosts
    algorithms: tuple[str, ...]
    preferred: tuple[str, ...] = ()


@dataclass
class KnownHosts:
    """The known_hosts files, each set of them read once: they may hold thousands of lines, for hundreds of hosts."""

    _read: dict[tuple[Path, ...], asyncssh.SSHKnownHosts] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def trust(self, target: Target) -> Trust:
        """Look a target up. A line that does not parse is passed over, as OpenSSH does; safe in any thread."""
        files = (*target.user_known_hosts, *target.global_known_hosts)
        with self._lock:
            if files not in self._read:
                self._read[files] = _parse(files)
            known = self._read[files]
        port = target.port if target.port != asyncssh.DEFAULT_PORT else None
        keys, authorities, *_ = known.match(target.key_alias or target.host, "", port)
        return Trust(known, tuple(sorted({key.algorithm.decode() for key in keys})), _preferred(keys, authorities))


def _preferred(keys: Sequence[asyncssh.SSHKey], authorities: Sequence[asyncssh.SSHKey]) -> tuple[str, ...]:
    if not keys and not authorities:
        return ()
    certificates = get_default_certificate_algs() if authorities else []
    known = [algorithm for key in keys for algorithm in key.sig_algorithms]
    return tuple(dict.fromkeys(name.decode() for name in [*certificates, *known, *get_default_public_key_algs()]))


def _parse(files: tuple[Path, ...]) -> asyncssh.SSHKnownHosts:
    known = asyncssh.SSHKnownHosts()
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue  # absent, or not ours to read: then it vouches for nobody
        for line in lines:
            with contextlib.suppress(ValueError):
                known.load(line)
    return known


def verdict(trusted: Trust | None, error: str) -> Verdict:
    """Say in which way a presented key is not trusted; ``error`` is asyncssh's reason."""
    if "revoked" in error:
        return "revoked"
    return "changed" if trusted and trusted.algorithms else "unknown"


def fingerprint(key: asyncssh.SSHKey | None) -> str:
    """Give ``ssh-ed25519 SHA256:…`` as ssh-keygen prints it, or ""."""
    return f"{key.algorithm.decode()} {key.get_fingerprint()}" if key else ""


def adding_command(target: Target, key: asyncssh.SSHKey | None) -> str:
    """Give the command that records the host's key, to be run once its fingerprint has been compared."""
    if target.jumps or target.proxy_command or target.key_alias:
        # ssh-keyscan goes through no proxy and knows no alias; ssh itself asks and records.
        return f"ssh {target.alias} true"
    kind = f" -t {_scan_type(key)}" if key else ""
    port = f" -p {target.port}" if target.port != asyncssh.DEFAULT_PORT else ""
    return f"ssh-keyscan{port}{kind} {target.host} >> {_first_file(target)}"


def _scan_type(key: asyncssh.SSHKey) -> str:
    name = key.algorithm.decode()  # ssh-ed25519, ecdsa-sha2-nistp256, sk-ssh-ed25519@openssh.com
    return next((kind for kind in ("ecdsa", "rsa") if kind in name), "ed25519")


def removing_command(target: Target) -> str:
    """Give the command that forgets the recorded keys of the host."""
    name = target.known_as
    quoted = f"'{name}'" if "[" in name else name
    return f"ssh-keygen -R {quoted} -f {_first_file(target)}"


def _first_file(target: Target) -> str:
    return str(target.user_known_hosts[0]) if target.user_known_hosts else "~/.ssh/known_hosts"
