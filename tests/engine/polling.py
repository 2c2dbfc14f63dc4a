"""Asking the HTTP endpoints of a rank again and again, from the moment it starts, and what came back in order."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.kit.hosts import Lab

INTERVAL = 0.1
LIMIT = 30.0
"""Seconds for one answer; the engine's own /health takes up to SGLANG_HEALTH_CHECK_TIMEOUT."""

REFUSED, SILENT, BROKEN = "refused", "silent", "broken"


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        at: when it was asked for, monotonic.
        seconds: how long it took.
        status: HTTP status, or ``refused`` (nobody listens), ``silent`` (no answer in time), ``broken`` (the
            connection ended without one).
        kind: media type of the body, without its parameters; "" where there is none.
        body: what came with it.
    """

    at: float
    seconds: float
    status: str
    kind: str = ""
    body: bytes = b""


def ask(
    address: str,
    port: int,
    path: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    limit: float = LIMIT,
    key: str = "",
) -> Answer:
    """Send one request on a connection of its own; a body goes as JSON, a key as the bearer's token."""
    at = time.monotonic()
    client = http.client.HTTPConnection(address, port, timeout=limit)
    status, kind, data = "", "", b""
    try:
        headers = {} if body is None else {"content-type": "application/json"}
        headers.update({"authorization": f"Bearer {key}"} if key else {})
        client.request(method, path, body=body, headers=headers)
        response = client.getresponse()
        status, data = str(response.status), response.read()
        kind = response.headers.get_content_type() if "content-type" in response.headers else ""
    except ConnectionRefusedError:
        status = REFUSED
    except TimeoutError:
        status = SILENT
    except (OSError, http.client.HTTPException):
        status = BROKEN
    finally:
        client.close()
    return Answer(at, time.monotonic() - at, status, kind, data)


@dataclass
class Poll:
    """One endpoint, asked all the time by a thread of its own."""

    address: str
    port: int
    path: str
    answers: list[Answer] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask until told to end."""
        while not self._ended.is_set():
            self.answers.append(ask(self.address, self.port, self.path))
            self._ended.wait(INTERVAL)

    def end(self) -> None:
        """Ask no more after the current answer."""
        self._ended.set()

    @property
    def sequence(self) -> list[str]:
        """The statuses in order, each run of equal ones once."""
        statuses = [answer.status for answer in self.answers]
        return [status for at, status in enumerate(statuses) if at == 0 or status != statuses[at - 1]]

    def came(self, status: str) -> bool:
        """Tell whether a status has come."""
        return any(answer.status == status for answer in self.answers)

    def least(self, status: str) -> float:
        """Give the shortest time that an answer of this status took, infinity where there was none."""
        return min((answer.seconds for answer in self.answers if answer.status == status), default=float("inf"))

    def first(self, status: str) -> float:
        """Give when a status came first, infinity where it never came."""
        return next((answer.at + answer.seconds for answer in self.answers if answer.status == status), float("inf"))


@contextmanager
def polling(lab: Lab, port: int, **paths: Sequence[str]) -> Iterator[Mapping[str, Poll]]:
    """Poll paths on the hosts of a lab while the body runs.

    Args:
        lab: two hosts: ``leader`` and ``follower``.
        port: on both.
        paths: per role; the keys of what comes back are like ``leader /health``.
    """
    hosts = dict(zip(("leader", "follower"), lab.hosts, strict=True))
    polls = {f"{role} {path}": Poll(hosts[role].address, port, path) for role in paths for path in paths[role]}
    with lab.inside():  # threads are made where their maker is
        threads = [threading.Thread(target=poll.run, name=f"poll {poll.address}{poll.path}") for poll in polls.values()]
        for thread in threads:
            thread.start()
    try:
        yield polls
    finally:
        for poll in polls.values():
            poll.end()
        for thread in threads:
            thread.join(2 * LIMIT)
