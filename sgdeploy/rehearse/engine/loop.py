"""A small event loop, and lines over sockets in it."""

from __future__ import annotations

import select
import time
from heapq import heappop, heappush

TYPE_CHECKING = False

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class Loop:
    """A small event loop: readable sockets and timers; blocked in poll() while there is nothing to do."""

    def __init__(self) -> None:
        """Start empty."""
        self._poll = select.poll()
        self._watched: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Call back whenever the descriptor is readable or closed."""
        self._watched[fd] = call
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        """Watch it no longer."""
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call back once, later; the seconds are not scaled."""
        self._serial += 1
        heappush(self._timers, (time.monotonic() + seconds, self._serial, call))

    def turn(self, until: float | None = None) -> None:
        """Block until something happened or the monotonic time has come; run what is due."""
        limits = [t for t in (until, self._timers[0][0] if self._timers else None) if t is not None]
        wait = None if not limits else max(0, int((min(limits) - time.monotonic()) * 1000) + 1)
        for fd, _ in self._poll.poll(wait):
            call = self._watched.get(fd)
            if call is not None:
                call()
        while self._timers and self._timers[0][0] <= time.monotonic():
            heappop(self._timers)[2]()

    def wait(self, done: Callable[[], bool], seconds: float | None = None) -> bool:
        """Turn until the condition holds (True) or the time is over (False)."""
        until = None if seconds is None else time.monotonic() + seconds
        while not done():
            if until is not None and time.monotonic() >= until:
                return False
            self.turn(until)
        return True


class Wire:
    """A socket that carries lines; ``on_end`` is called once when the other side is gone."""

    def __init__(
        self, loop: Loop, sock: socket.socket, on_line: Callable[[Wire, str], None], on_end: Callable[[Wire], None]
    ) -> None:
        """Watch the socket from now on."""
        self.loop, self.sock, self.on_line, self.on_end = loop, sock, on_line, on_end
        self.rank = -1
        self._buffer = b""
        sock.setblocking(False)
        loop.watch(sock.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self.on_end(self)
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self.on_line(self, line.decode())

    def send(self, text: str) -> None:
        """Send one line; whoever is gone is noticed by the reading side."""
        try:
            self.sock.send(text.encode() + b"\n")
        except OSError:
            return

    def close(self) -> None:
        """Close; ``on_end`` is not called."""
        if self.sock.fileno() >= 0:
            self.loop.forget(self.sock.fileno())
            self.sock.close()
