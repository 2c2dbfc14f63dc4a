"""Start ranks of the simulated engine as subprocesses, ask them things, and prove that none is left."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sgdeploy.parcels import shipped

PATIENCE = 20.0  # seconds; a bound for events that take milliseconds on an idle machine
READY = "The server is fired up and ready to roll!"
FAST = {"SGDEPLOY_REHEARSE_SPEED": "20", "SGDEPLOY_REHEARSE_HEALTH_SECONDS": "0.02"}


def until(what: str, done: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for an event and say in the failure what was waited for."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.01)


def free_port(host: str) -> int:
    with socket.create_server((host, 0)) as sock:
        return int(sock.getsockname()[1])


@dataclass(frozen=True)
class Answer:
    """What a server said: status 0 stands for a refused connection, -1 for silence."""

    status: int
    body: bytes = b""
    seconds: float = 0.0

    @property
    def data(self) -> Any:
        """Give the JSON of the body."""
        return json.loads(self.body)


@dataclass
class Rank:
    """One started process of the simulated engine."""

    popen: subprocess.Popen[bytes]
    host: str
    port: int
    path: Path

    @property
    def log(self) -> str:
        """Give all it has written so far."""
        return self.path.read_text(encoding="utf-8")

    def sees(self, text: str) -> Rank:
        """Wait until its log has the text."""
        until(f"{text!r} in the log of {self.host}:{self.port}:\n{self.log}", lambda: text in self.log)
        return self

    def ended(self) -> int:
        """Wait for its end: exit code, negative for a signal."""
        return self.popen.wait(PATIENCE)

    def kill_all(self) -> None:
        """Kill all its processes from outside, as a lost host would lose them."""
        for pid in session_of(self.popen.pid):
            kill(pid)

    def ask(
        self, path: str, body: object = None, *, headers: Mapping[str, str] | None = None, limit: float = PATIENCE
    ) -> Answer:
        """Send one request, a POST where there is a body."""
        client = http.client.HTTPConnection(self.host, self.port, timeout=limit)
        began = time.monotonic()
        try:
            sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            client.request("GET" if body is None else "POST", path, body=sent, headers=dict(headers or {}))
            response = client.getresponse()
            body_read = response.read()
            return Answer(response.status, body_read, time.monotonic() - began)
        except TimeoutError:
            return Answer(-1, seconds=time.monotonic() - began)
        except (ConnectionError, http.client.HTTPException):
            return Answer(0)
        finally:
            client.close()

    def titles(self) -> dict[str, int]:
        """Give the titles of its children, and their pids."""
        children = session_of(self.popen.pid) - {self.popen.pid}
        return {title_of(pid): pid for pid in children}


def title_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()


def processes() -> Iterator[tuple[int, list[str]]]:
    """Yield each living process with its /proc stat fields from the third on."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                yield int(folder.name), fields


def kill(pid: int) -> None:
    """Kill one process; that it ended by itself just before is fine."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def session_of(pid: int) -> set[int]:
    return {each for each, fields in processes() if int(fields[3]) == pid}


@dataclass
class Ranks:
    """All ranks of one test; each has a session of its own, and all have one mark in their environment."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: list[Rank] = field(default_factory=list)

    def start(self, *flags: str, host: str = "127.0.1.1", **env: str) -> Rank:
        """Start one process; environment variables by keyword, over the fast defaults."""
        port = int(env.pop("port", "0")) or free_port(host)
        path = self.folder / f"{len(self.started)}.log"
        engine = self.folder / "engine.py"
        if not engine.exists():
            engine.write_text(shipped("rehearse/engine.py"), encoding="utf-8")
        argv = [sys.executable, "-I", "-S", str(engine), "--model-path", "/models/tiny", "--host", host]
        with path.open("wb") as log:
            popen = subprocess.Popen(
                [*argv, "--port", str(port), *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**FAST, "REHEARSE_TEST_MARK": self.mark, **env},
                start_new_session=True,
            )
        rank = Rank(popen, host, port, path)
        self.started.append(rank)
        return rank

    def cluster(self, nodes: int, per_node: int, *flags: str, **env: str) -> list[Rank]:
        """Start a rank launch: nodes on 127.0.1.1 and on, one process per rank, the leader first."""
        world = str(nodes * per_node)
        meet = f"127.0.1.1:{free_port('127.0.1.1')}"
        common = ("--nnodes", str(nodes), "--tp-size", world, "--dist-init-addr", meet, *flags)
        return [
            self.start(
                *common, "--node-rank", str(n), "--tp-rank-in-node", str(r), **{**env, "host": f"127.0.1.{n + 1}"}
            )
            for n in range(nodes)
            for r in range(per_node)
        ]

    def left(self) -> set[int]:
        """Give what lives of all that was started, also what left its session."""
        sessions = {rank.popen.pid for rank in self.started}
        return {pid for pid, fields in processes() if int(fields[3]) in sessions or self._is_marked(pid)}

    def _is_marked(self, pid: int) -> bool:
        try:
            return self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False

    def clear(self) -> None:
        """Kill what is left, by pid, and prove that nothing is."""
        for pid in self.left():
            kill(pid)
        for rank in self.started:
            rank.popen.wait(PATIENCE)
        until("the end of all simulated ranks", lambda: not self.left())


@contextmanager
def ranks_in(folder: Path) -> Iterator[Ranks]:
    ranks = Ranks(folder)
    try:
        yield ranks
    finally:
        ranks.clear()
