"""SSH connections: one attempt with evidence, another try where sshd was only too busy, and the helper's channel."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from dataclasses import dataclass, field
from random import SystemRandom
from typing import TYPE_CHECKING, Final

import asyncssh

from sgdeploy.node.boot import BOOTSTRAP, PYTHON_FLAGS
from sgdeploy.remote.channel import KEPT_NOISE, Ending, last_line
from sgdeploy.remote.waits import bounded, stop, within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sgdeploy.remote.hostkeys import Trust
    from sgdeploy.remote.target import Target

CHUNK: Final = 65536
PATIENCE: Final = 2.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 1.0
CIPHERS: Final = "^aes128-gcm@openssh.com"
"""Asked for before asyncssh's own first choice (ChaCha20), which needs three passes for a packet where this needs one:
a sixth of the CPU that a host costs here. Servers without it take one of the others."""
PROXY_SCRIPT: Final = "{ %s\n} 2>/dev/null; exit $?"
"""Runs a ``ProxyCommand``. Asyncssh reads its stderr as if the server had sent it, and takes a closed stderr for the
end of the connection; so what it complains of goes nowhere, and the shell stays and keeps the pipe open."""


@dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds.

    Attributes:
        connect: for one host (or one jump host): TCP, key exchange, login, further tries included.
        greeting: for the login shell and the helper's first words.
        keepalive: of silence before the far end is asked whether it is there.
        keepalive_count: questions that may stay unanswered; a cut is noticed after ``keepalive * (count + 1)``.
    """

    connect: float = 10.0
    greeting: float = 30.0
    keepalive: float = 4.0
    keepalive_count: int = 2


@dataclass
class Evidence:
    """What was seen of one host on the way in, kept for the message in case it fails.

    Attributes:
        target: where the name led, once that is known.
        via: the hop that was being opened when it failed, "" for the host itself.
        trust: what the known_hosts files say; None where host keys are not checked.
        connected: whether TCP stood at the last try.
        version: what the server called itself (``SSH-2.0-OpenSSH_9.2p1``), "" before that.
        offered: the host key that was presented and not trusted.
        tries: attempts so far.
        seconds: the bound that ran out, for timeouts.
        lost: why the connection ended later on.
    """

    target: Target | None = None
    via: str = ""
    trust: Trust | None = None
    connected: bool = False
    version: str = ""
    offered: asyncssh.SSHKey | None = None
    tries: int = 0
    seconds: float = 0.0
    lost: Exception | None = field(default=None, repr=False)


class _Witness(asyncssh.SSHClient):
    """Writes down what happens to a connection; trusts nobody that the known_hosts files do not."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._connection: asyncssh.SSHClientConnection | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self._connection = conn
        self._evidence.connected = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._evidence.lost = exc
        self.note_version()
        self._connection = None  # the two would keep each other alive

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        del host, addr, port
        self._evidence.offered = key
        return False

    def note_version(self) -> None:
        if self._connection is not None:
            self._evidence.version = str(self._connection.get_extra_info("server_version") or "")


async def dial(
    target: Target, *, tunnel: asyncssh.SSHClientConnection | None, limits: Limits, evidence: Evidence
) -> asyncssh.SSHClientConnection:
    """Open a connection and log in.

    A server that takes the connection and drops it before its first word is busy (``MaxStartups``): it is asked again
    after a pause with jitter, until the bound is over.

    Args:
        target: where to.
        tunnel: connection to go through, or None.
        limits: of which ``connect`` bounds everything here.
        evidence: written to; its ``trust`` decides on host keys (None: they are not checked).

    Raises:
        asyncio.TimeoutError, OSError, asyncssh.Error, ValueError: for ``explain``.
    """
    loop = asyncio.get_running_loop()
    evidence.target = target
    evidence.seconds = limits.connect
    deadline = loop.time() + limits.connect
    pause = FIRST_PAUSE
    while True:
        evidence.connected, evidence.version = False, ""
        evidence.tries += 1
        try:
            return await _attempt(target, tunnel, limits, evidence, deadline - loop.time())
        except (ConnectionResetError, BrokenPipeError, asyncssh.ConnectionLost):
            wait = pause * SystemRandom().uniform(0.5, 1.5)
            if evidence.version or not evidence.connected or loop.time() + wait >= deadline:
                raise
        await asyncio.sleep(wait)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _attempt(
    target: Target,
    tunnel: asyncssh.SSHClientConnection | None,
    limits: Limits,
    evidence: Evidence,
    seconds: float,
) -> asyncssh.SSHClientConnection:
    witness = _Witness(evidence)
    opening = asyncssh.connect(
        target.alias,
        options=target.settings,
        config=[target.config] if target.config and not target.settings else None,
        port=target.port,
        username=target.user,
        tunnel=tunnel,
        proxy_command=["/bin/sh", "-c", PROXY_SCRIPT % target.proxy_command] if target.proxy_command else None,
        known_hosts=evidence.trust.known if evidence.trust else None,
        server_host_key_algs=evidence.trust.preferred if evidence.trust and not target.key_types_set else (),
        encryption_algs=() if target.ciphers_set else CIPHERS,
        client_keys=[str(path) for path in target.keys] or (),
        ignore_encrypted=True,  # the agent may hold them; if not, the message says so
        client_factory=lambda: witness,
        keepalive_interval=limits.keepalive,
        keepalive_count_max=limits.keepalive_count,
        agent_forwarding=False,
        x11_forwarding=False,
        request_pty=False,
        password_auth=False,
        kbdint_auth=False,
        compression_algs=None,
        connect_timeout=None,
        login_timeout=0,
    )
    try:
        return await bounded(opening, seconds, undo=hang_up)
    except asyncio.TimeoutError:
        witness.note_version()
        raise


class SshChannel:
    """Channel to a helper at the other end of a connection of its own."""

    def __init__(
        self,
        connection: asyncssh.SSHClientConnection,
        process: asyncssh.SSHClientProcess[bytes],
        limits: Limits,
        evidence: Evidence,
    ) -> None:
        """Take over a process that was started on the connection."""
        self._connection = connection
        self._process = process
        self._limits = limits
        self._evidence = evidence
        self._errors = bytearray()
        self._stopped = asyncio.Event()
        self._listener = asyncio.create_task(self._listen())

    async def read(self) -> bytes:
        """Give the next bytes of its stdout, ``b""`` at the end."""
        try:
            return await self._process.stdout.read(CHUNK)
        except (OSError, asyncssh.Error):
            return b""

    def write(self, data: bytes) -> None:
        """Queue bytes for its stdin."""
        with contextlib.suppress(OSError, asyncssh.Error):
            self._process.stdin.write(data)

    async def drain(self) -> None:
        """Wait until the queue is short again."""
        with contextlib.suppress(OSError, asyncssh.Error):
            await self._process.stdin.drain()

    async def ending(self) -> Ending:
        """Say how it ended."""
        await within(PATIENCE, self._process.wait_closed(), self._stopped.wait())
        signal = self._process.exit_signal
        words = last_line(bytes(self._errors))
        if signal:
            return Ending(signal=f"SIG{signal[0]}", last_words=words)
        code = self._process.exit_status
        if code is not None:
            return Ending(code=code, last_words=words)
        return Ending(link=self._link(), last_words=words)

    async def abandon(self) -> None:
        """Let go of a helper that never began; the connection stays open for another try."""
        self._process.close()
        await stop(self._listener)

    async def close(self, pid: int | None) -> None:
        """End the helper, then the connection."""
        with contextlib.suppress(OSError, asyncssh.Error):
            self._process.stdin.write_eof()
        if not await within(PATIENCE, self._process.wait_closed()) and pid is not None:
            await self._kill(pid)
        await self.abandon()
        await hang_up(self._connection)

    async def _kill(self, pid: int) -> None:
        """Kill a helper that does not end: one that is stopped would hold its lock for ever.

        Its pid is still its own, since sshd has not told its end. (A signal request of SSH is refused for root.)
        """
        with contextlib.suppress(OSError, asyncssh.Error, asyncio.TimeoutError):
            await bounded(self._connection.run(f"kill -KILL {pid}"), PATIENCE)

    async def _listen(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await self._process.stderr.read(CHUNK):
                self._errors += data
                del self._errors[:-KEPT_NOISE]
        self._stopped.set()

    def _link(self) -> str:
        lost = self._evidence.lost
        if lost is None:
            return "the SSH connection was closed by the other side"
        if "keepalive" in str(lost):
            seconds = self._limits.keepalive * (self._limits.keepalive_count + 1)
            return f"the host has not answered on the SSH connection for {seconds:g} s (power or network)"
        return f"the SSH connection broke: {str(lost) or type(lost).__name__}"


async def start_helper(
    connection: asyncssh.SSHClientConnection, program: Sequence[str], *, limits: Limits, evidence: Evidence
) -> SshChannel:
    """Start the bootstrap through the login shell: no terminal, no forwarding, bytes only.

    Args:
        connection: logged in.
        program: Python by name or path, with what goes before it.
        limits: ``connect`` bounds the opening of the channel.
        evidence: of the connection.

    Raises:
        asyncio.TimeoutError, OSError, asyncssh.Error: for ``explain``.
    """
    command = " ".join(("exec", shlex.join(program), *PYTHON_FLAGS, "-c", f"'{BOOTSTRAP}'"))
    process = await bounded(connection.create_process(command, encoding=None), limits.connect)
    return SshChannel(connection, process, limits, evidence)


async def hang_up(connection: asyncssh.SSHClientConnection) -> None:
    """Close a connection; never raises, cuts it off after two seconds."""
    connection.close()
    if not await within(PATIENCE, connection.wait_closed()):
        connection.abort()
        await within(PATIENCE, connection.wait_closed())
