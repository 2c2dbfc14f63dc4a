"""From an exception to what an operator can act on: reason with evidence, and the next step."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import asyncssh

from sgdeploy.errors import HostFault
from sgdeploy.remote import hostkeys, sudo
from sgdeploy.remote.greeting import NoGreetingError
from sgdeploy.words import plural

if TYPE_CHECKING:
    from sgdeploy.plan.model import PlanHost
    from sgdeploy.remote.logins import Login
    from sgdeploy.remote.ssh import Evidence
    from sgdeploy.remote.target import Target

UNREACHABLE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})
EATEN: Final = ("ValueError", "zlib.error", "EOFError")
"""Last words of the bootstrap where the beginning of what was sent to it is missing."""
MANY_TRIES: Final = 3
"""So many connections that were dropped are told as "again and again": the number differs from host to host, and hosts
with the same trouble are told together."""
LOOK_AT_SSHD: Final = "look at sshd there: systemctl status sshd; journalctl -u sshd"

Words: TypeAlias = "tuple[str, str]"
"""Reason and next step."""


class MissingPythonError(Exception):
    """The account has no python3, neither in the PATH of its login shell nor as /usr/bin/python3."""


@dataclass(frozen=True)
class _Case:
    host: PlanHost
    evidence: Evidence
    target: Target
    login: Login | None


def explain(exc: BaseException, host: PlanHost, evidence: Evidence, login: Login | None = None) -> HostFault:
    """Turn what stopped us from opening a host into a fault.

    Args:
        exc: what was raised.
        host: the host that was being opened.
        evidence: what was seen before.
        login: what there was to log in with, where that matters.
    """
    if isinstance(exc, NoGreetingError):
        reason, hint = _no_greeting(exc, host, evidence)
    elif isinstance(exc, MissingPythonError):
        reason, hint = _no_python(host, evidence)
    elif evidence.target is None:
        reason, hint = _before_the_start(exc, host)
    else:
        reason, hint = _on_the_way(exc, _Case(host, evidence, evidence.target, login))
    if evidence.via:
        reason = f"jump host {evidence.via}: {reason}"
    return HostFault(host.host, reason, hint)


def _on_the_way(exc: BaseException, case: _Case) -> Words:
    if isinstance(exc, asyncssh.HostKeyNotVerifiable):
        words = _host_key(exc, case)
    elif isinstance(exc, asyncssh.PermissionDenied):
        words = _denied(case)
    elif isinstance(exc, asyncssh.ChannelOpenError):
        words = _no_channel(exc, case)
    elif isinstance(exc, socket.gaierror):
        words = _no_name(exc, case)
    elif isinstance(exc, OSError) and exc.errno:
        words = _not_reached(exc, case)
    elif isinstance(exc, asyncio.TimeoutError):
        words = _too_slow(case)
    elif isinstance(exc, (OSError, asyncssh.ConnectionLost)):
        words = _dropped(exc, case)
    else:
        words = _other(exc, case)
    return words


def _before_the_start(exc: BaseException, host: PlanHost) -> Words:
    if host.connection == "local":
        return f"the node helper could not be started on this machine: {_text(exc)}", "mend what it names"
    return (
        f"the SSH configuration cannot be used for {host.ssh}: {_text(exc)}",
        "mend the file and line that it names",
    )


def _host_key(exc: asyncssh.HostKeyNotVerifiable, case: _Case) -> Words:
    target, evidence = case.target, case.evidence
    shown = hostkeys.fingerprint(evidence.offered)
    presented = f"; it presents {shown}" if shown else ""
    adding = hostkeys.adding_command(target, evidence.offered)
    what = hostkeys.verdict(evidence.trust, str(exc))
    if what == "revoked":
        return f"the host key of {target.where} is marked as revoked", "do not trust it: give the host a new key"
    if what == "unknown":
        own = "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
        return (
            f"the host key of {target.where} is not known{presented}",
            f"compare that fingerprint with the host's own (`{own}` on its console), then: {adding}",
        )
    return (
        f"the host key of {target.where} has CHANGED{presented}: the host was reinstalled, or somebody stands between",
        f"if the new key is the host's own: {hostkeys.removing_command(target)} && {adding}",
    )


def _denied(case: _Case) -> Words:
    target, login = case.target, case.login
    reason = f"{target.where} refuses user {target.user}; keys tried: {login.tried if login else 'none'}"
    if login and login.locked:
        names = " ".join(map(str, login.locked))
        return f"{reason}; not tried, since they need a passphrase: {names}", f"ssh-add {names}"
    port = "" if target.port == asyncssh.DEFAULT_PORT else f" -p {target.port}"
    copy = f"ssh-copy-id{port} {target.user}@{target.host}"
    return reason, f"give that user one of our keys ({copy}), or name another user or key"


def _no_channel(exc: asyncssh.ChannelOpenError, case: _Case) -> Words:
    target = case.target
    if target.jumps:
        return (
            f"{target.where} cannot be reached from jump host {target.jumps[-1]}: {exc.reason}",
            f"ssh {target.jumps[-1]} nc -vz {target.host} {target.port}",
        )
    return (
        f"{target.where} lets us in but opens no session: {exc.reason}",
        "look at MaxSessions and the account's restrictions in its sshd_config",
    )


def _no_name(exc: socket.gaierror, case: _Case) -> Words:
    mend = f"mend `ssh:` of {case.host.host} in the inventory"
    return (
        f"the name {case.target.host} cannot be resolved ({exc.strerror})",
        f"{mend}, or add `Host {case.target.alias}` with a HostName to ~/.ssh/config",
    )


def _not_reached(exc: OSError, case: _Case) -> Words:
    where, reach = case.target.where, _reach(case.target)
    if exc.errno == errno.ECONNREFUSED:
        return f"{where} refuses connections: no sshd listens there", f"start sshd on it, or mend the port; {reach}"
    if exc.errno in UNREACHABLE:
        return f"{where} cannot be reached ({os.strerror(exc.errno)})", reach
    if exc.errno == errno.ETIMEDOUT:
        return f"{where} did not answer ({os.strerror(exc.errno)})", reach
    return _dropped(exc, case)


def _too_slow(case: _Case) -> Words:
    target, evidence = case.target, case.evidence
    bound = f"within {evidence.seconds:g} s"
    if not evidence.connected:
        return f"{target.where} did not answer {bound}", _reach(target)
    if not evidence.version:
        return f"{target.where} took the connection but has not said a word of SSH {bound}", LOOK_AT_SSHD
    return f"{target.where} speaks SSH but has not logged us in {bound}", LOOK_AT_SSHD


def _dropped(exc: BaseException, case: _Case) -> Words:
    target, evidence = case.target, case.evidence
    if not evidence.connected:
        return f"{target.where} cannot be connected to: {_text(exc)}", _reach(target)
    if not evidence.version and target.proxy_command:
        return (
            f"the ProxyCommand for {target.where} ended before the first word of SSH ({_text(exc)})",
            f"run it by hand: {target.proxy_command}",
        )
    if not evidence.version:
        tries = "again and again" if evidence.tries >= MANY_TRIES else plural(evidence.tries, "time")
        often = f"{tries} in {evidence.seconds:g} s"
        return (
            f"{target.where} dropped the connection before its first word, {often} ({_text(exc)})",
            "raise MaxStartups in its sshd_config, or see whether it bans this machine (PerSourcePenalties, fail2ban)",
        )
    return f"{target.where} broke the connection off during the login: {_text(exc)}", LOOK_AT_SSHD


def _other(exc: BaseException, case: _Case) -> Words:
    alias = case.target.alias
    return (
        f"{case.target.where}: {_text(exc)}",
        f"try `ssh -v {alias}` by hand; `ssh -G {alias}` shows the settings that apply",
    )


def _no_python(host: PlanHost, evidence: Evidence) -> Words:
    if host.sudo:
        return (
            "there is no python3 for root, neither in the PATH that sudo gives nor as /usr/bin/python3",
            "install Python 3.7 or newer on it, or add its folder to `secure_path` of sudoers",
        )
    user = evidence.target.user if evidence.target else "this user"
    return (
        f"there is no python3 for {user}, neither in the PATH of the login shell nor as /usr/bin/python3",
        "install Python 3.7 or newer on it (dnf install python3, apt install python3)",
    )


def _no_greeting(exc: NoGreetingError, host: PlanHost, evidence: Evidence) -> Words:
    user = evidence.target.user if evidence.target else "this user"
    heard = exc.noise or exc.ending.last_words
    said = f"; the last line heard is: {heard}" if heard else ""
    by_hand = f"ssh {host.ssh} {'sudo -n' if host.sudo else 'exec'} python3 -V"
    look = f"see what `{by_hand}` prints; the login files of {user} must not ask or block"
    if exc.ending.last_words.startswith("sgdeploy needs Python 3.7"):
        return f"its python3 is too old: {exc.ending.last_words}", "install Python 3.7 or newer on it"
    if exc.ending.code and exc.ending.last_words.startswith(EATEN):
        return f"a login file of {user} has read from stdin what was meant for the node helper{said}", look
    if exc.why == "silent":
        return f"the node helper has not begun within {exc.seconds:g} s of the login{said}", look
    if exc.why == "noise":
        return f"the login shell prints without end instead of running the node helper{said}", look
    refused = sudo.refusal(exc.ending, evidence.target.user if evidence.target else "USER") if host.sudo else None
    if refused:
        return refused
    printed = f"; it printed: {exc.noise}" if exc.noise else ""
    return f"before its first word, {exc.ending}{printed}", look


def _reach(target: Target) -> str:
    return f"see whether it is up and no firewall stands between: nc -vz {target.host} {target.port}"


def _text(exc: BaseException) -> str:
    return str(exc) or type(exc).__name__
