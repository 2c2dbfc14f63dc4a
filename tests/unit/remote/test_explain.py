"""Each way of not getting in has its own words, with evidence and a next step."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path

import asyncssh
import pytest

from sgdeploy.plan.model import PlanHost
from sgdeploy.remote.channel import Ending
from sgdeploy.remote.explain import MissingPythonError, explain
from sgdeploy.remote.greeting import NoGreetingError
from sgdeploy.remote.hostkeys import KnownHosts, Trust
from sgdeploy.remote.logins import Login, login
from sgdeploy.remote.ssh import Evidence
from sgdeploy.remote.target import Target

HOST = PlanHost(host="n01", address="10.0.0.1", ssh="n01", run_dir="/r")
FILE = Path("/h/.ssh/known_hosts")
TARGET = Target(alias="n01", host="10.0.0.1", port=22, user="root", user_known_hosts=(FILE,))
ODD = Target(alias="n01", host="10.0.0.1", port=2222, user="ops", user_known_hosts=(FILE,))
BEHIND = Target(alias="n01", host="10.0.0.1", port=22, user="root", jumps=("gw",), user_known_hosts=(FILE,))
PHRASE = "correct horse"
UNTRUSTED = asyncssh.HostKeyNotVerifiable("Host key is not trusted for host 10.0.0.1")
KNOWN = Trust(asyncssh.SSHKnownHosts(), ("ssh-rsa",))


def seen(target: Target = TARGET, **values: object) -> Evidence:
    evidence = Evidence(target=target, seconds=10.0)
    for name, value in values.items():
        setattr(evidence, name, value)
    return evidence


def failed(number: int) -> OSError:
    # As asyncio makes it: its text is not the system's.
    return OSError(number, "Connect call failed ('10.0.0.1', 22)")


@pytest.mark.parametrize(
    ("exc", "evidence", "reason", "hint"),
    [
        (failed(errno.ECONNREFUSED), seen(), "refuses connections", "start sshd"),
        (failed(errno.EHOSTUNREACH), seen(), "cannot be reached (No route to host)", "nc -vz 10.0.0.1 22"),
        (failed(errno.ENETUNREACH), seen(), "cannot be reached (Network is unreachable)", "nc -vz"),
        (failed(errno.ETIMEDOUT), seen(), "did not answer (Connection timed out)", "nc -vz"),
        (OSError("Multiple exceptions: a, b"), seen(), "cannot be connected to: Multiple", "nc -vz"),
        (asyncio.TimeoutError(), seen(), "did not answer within 10 s", "nc -vz"),
        (asyncio.TimeoutError(), seen(connected=True), "not said a word of SSH within 10 s", "systemctl status"),
        (asyncio.TimeoutError(), seen(connected=True, version="SSH-2.0-x"), "has not logged us in", "journalctl"),
        (
            asyncssh.ConnectionLost("Connection lost"),
            seen(connected=True, tries=9),
            "before its first word, again and again in 10 s",
            "MaxStartups",
        ),
        (
            asyncssh.ConnectionLost("Connection lost"),
            seen(Target("n01", "10.0.0.1", 22, "root", proxy_command="nc x"), connected=True),
            "the ProxyCommand for n01 (10.0.0.1 port 22) ended",
            "run it by hand: nc x",
        ),
        (failed(errno.ECONNRESET), seen(connected=True, tries=1), "1 time in 10 s", "MaxStartups"),
        (
            asyncssh.ConnectionLost("Connection lost"),
            seen(connected=True, version="SSH-2.0-x"),
            "broke the connection off during the login",
            "sshd",
        ),
        (socket.gaierror(-2, "Name or service not known"), seen(), "cannot be resolved", "Host n01"),
        (asyncssh.ChannelOpenError(2, "Connection refused"), seen(BEHIND), "from jump host gw", "ssh gw nc -vz 10.0"),
        (asyncssh.ChannelOpenError(1, "no"), seen(), "opens no session: no", "MaxSessions"),
        (asyncssh.KeyExchangeFailed("No matching MAC"), seen(trust=KNOWN), "No matching MAC", "ssh -v n01"),
        (ValueError("odd"), seen(), "odd", "ssh -G n01"),
        (ValueError("/h/.ssh/config line 2: Bad"), Evidence(), "line 2", "mend the file"),
        (MissingPythonError(), seen(), "no python3 for root", "install Python 3.7"),
        (NoGreetingError("silent", b"a\nPassword: ", seconds=30), seen(), "within 30 s of the login; the last", "ask"),
        (NoGreetingError("noise", b"spam"), seen(), "prints without end", "exec python3 -V"),
        (
            NoGreetingError("ended", b"not available.", ending=Ending(code=1)),
            seen(),
            "the node helper ended with exit code 1; it printed: not available.",
            "python3 -V",
        ),
        (
            NoGreetingError("ended", b"", ending=Ending(code=1, last_words="ValueError: too many values to unpack")),
            seen(),
            "a login file of root has read from stdin what was meant for the node helper",
            "must not ask or block",
        ),
        (
            NoGreetingError("ended", b"", ending=Ending(code=1, last_words="sgdeploy needs Python 3.7 or newer")),
            seen(),
            "python3 is too old",
            "install Python 3.7",
        ),
    ],
)
def test_words(exc: Exception, evidence: Evidence, reason: str, hint: str) -> None:
    fault = explain(exc, HOST, evidence)
    assert fault.host == "n01"
    assert reason in fault.reason
    assert hint in str(fault.hint)


@pytest.mark.parametrize(
    ("ending", "reason", "hint"),
    [
        (Ending(code=1, last_words="sudo: a password is required"), "sudo asks ops for a password", "NOPASSWD: ALL"),
        (Ending(code=1, last_words="sudo: interactive authentication is required"), "asks ops for a", "NOPASSWD: ALL"),
        (
            Ending(code=1, last_words="sudo: sorry, you must have a tty to run sudo"),
            "sudo wants a terminal (requiretty)",
            "Defaults:ops !requiretty",
        ),
        (
            Ending(
                code=1, last_words="Sorry, user ops is not allowed to execute '/usr/bin/python3 -I' as root on n01."
            ),
            "sudo does not let ops run python3 as root",
            "ops ALL=(root) NOPASSWD: ALL",
        ),
        (
            Ending(code=127, last_words="bash: line 1: exec: sudo: not found"),
            "there is no sudo for ops in the PATH of the login shell",
            "log in as root",
        ),
        (
            Ending(code=1, last_words="sudo: unable to open audit system"),
            "before its first word, the node helper ended with exit code 1: sudo: unable to open audit system",
            "`ssh n01 sudo -n python3 -V`",
        ),
    ],
)
def test_what_sudo_says_has_its_next_step(ending: Ending, reason: str, hint: str) -> None:
    fault = explain(NoGreetingError("ended", b"", ending=ending), HOST.model_copy(update={"sudo": True}), seen(ODD))
    assert reason in fault.reason
    assert hint in str(fault.hint)


def test_no_python_under_sudo_is_no_python_of_root() -> None:
    fault = explain(MissingPythonError(), HOST.model_copy(update={"sudo": True}), seen(ODD))
    assert fault.reason.startswith("there is no python3 for root, neither in the PATH that sudo gives")


def test_an_unknown_host_key_shows_its_fingerprint_and_the_command_that_adds_it() -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    fault = explain(UNTRUSTED, HOST, seen(ODD, offered=key, trust=Trust(asyncssh.SSHKnownHosts(), ())))
    assert f"is not known; it presents ssh-ed25519 {key.get_fingerprint()}" in fault.reason
    assert str(fault.hint).endswith(f"ssh-keyscan -p 2222 -t ed25519 10.0.0.1 >> {FILE}")


def test_a_changed_host_key_shows_how_to_forget_the_old_one() -> None:
    key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    fault = explain(UNTRUSTED, HOST, seen(ODD, offered=key, trust=KNOWN))
    assert "has CHANGED" in fault.reason
    assert f"ssh-keygen -R '[10.0.0.1]:2222' -f {FILE} && ssh-keyscan -p 2222 -t ecdsa 10.0.0.1" in str(fault.hint)


def test_behind_a_jump_host_ssh_itself_records_the_key() -> None:
    fault = explain(UNTRUSTED, HOST, seen(BEHIND, trust=Trust(asyncssh.SSHKnownHosts(), ())))
    assert str(fault.hint).endswith("then: ssh n01 true")


def test_a_revoked_host_key_is_not_to_be_trusted() -> None:
    fault = explain(asyncssh.HostKeyNotVerifiable("Host key is revoked for host x"), HOST, seen(trust=KNOWN))
    assert "revoked" in fault.reason
    assert "do not trust it" in str(fault.hint)


def test_a_jump_host_is_named() -> None:
    fault = explain(failed(errno.ECONNREFUSED), HOST, seen(Target("gw", "10.9.9.9", 22, "ops"), via="gw"))
    assert (fault.host, fault.reason[:41]) == ("n01", "jump host gw: gw (10.9.9.9 port 22) refus")


def test_a_refused_login_names_user_and_keys() -> None:
    keys = Login((Path("/h/.ssh/id_rsa"),), (), 2)
    fault = explain(asyncssh.PermissionDenied("x"), HOST, seen(ODD), keys)
    assert "refuses user ops; keys tried: /h/.ssh/id_rsa, 2 of the agent" in fault.reason
    assert "ssh-copy-id -p 2222 ops@10.0.0.1" in str(fault.hint)


def test_keys_with_a_passphrase_are_named(home: Path) -> None:
    folder = home / ".ssh"
    folder.mkdir()
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(folder / "id_ed25519", "pkcs8-pem", passphrase=PHRASE)
    key.write_private_key(folder / "id_rsa")
    keys = asyncio.run(login(TARGET))
    assert keys == Login((folder / "id_rsa",), (folder / "id_ed25519",), None)
    fault = explain(asyncssh.PermissionDenied("x"), HOST, seen(), keys)
    assert f"not tried, since they need a passphrase: {folder / 'id_ed25519'}" in fault.reason
    assert fault.hint == f"ssh-add {folder / 'id_ed25519'}"


def test_no_key_at_all_is_said(home: Path) -> None:
    del home
    fault = explain(asyncssh.PermissionDenied("x"), HOST, seen(), asyncio.run(login(TARGET)))
    assert "keys tried: none (there is no key file and no agent)" in fault.reason


def test_known_hosts_read_all_lines_that_parse(tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    file = tmp_path / "known_hosts"
    file.write_text(f"|1|broken\n@odd x {key}just one word\n\n10.0.0.1,n01 {key}", encoding="utf-8")
    target = Target("n01", "10.0.0.1", 22, "root", user_known_hosts=(tmp_path / "absent", file))
    assert KnownHosts().trust(target).algorithms == ("ssh-ed25519",)
    assert KnownHosts().trust(Target("b", "10.0.0.2", 22, "root", user_known_hosts=(file,))).algorithms == ()
