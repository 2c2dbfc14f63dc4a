"""An HTTP server in the event loop, as much of one as clients of an engine notice."""

from __future__ import annotations

from .basics import log
from .sockets import listen

TYPE_CHECKING = False

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from .loop import Loop


REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
MAX_REQUEST = 16 << 20


class Request:
    """One HTTP request; ``reply`` may be called at once, later, or never (the engine hangs)."""

    def __init__(self, connection: Connection, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        """Hold what was asked."""
        self.connection, self.method, self.target = connection, method, target
        self.path = target.partition("?")[0]
        self.headers, self.body = headers, body

    def reply(self, status: int, body: bytes = b"", kind: str = "application/json") -> None:
        """Answer, and write the access line as uvicorn does."""
        self.connection.reply(self, status, body, kind)


class Connection:
    """One client of a simulated server: requests one after the other, kept alive as HTTP/1.1 has it."""

    def __init__(self, server: Server, sock: socket.socket, peer: str) -> None:
        """Watch the socket."""
        self.server, self.sock, self.peer = server, sock, peer
        self._buffer = b""
        self._busy = False
        sock.settimeout(5.0)  # answers are small: a client that does not take one for 5 s is gone
        server.loop.watch(sock.fileno(), self._read)

    def close(self) -> None:
        """Close; a late reply is then dropped."""
        if self.sock.fileno() >= 0:
            self.server.loop.forget(self.sock.fileno())
            self.sock.close()

    def _read(self) -> None:
        try:
            data = self.sock.recv(65536)
        except OSError:
            data = b""
        self._buffer += data
        if not data or len(self._buffer) > MAX_REQUEST:
            self.close()
        elif not self._busy:
            self._next()

    def _next(self) -> None:
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = headers.get("content-length", "0")
        if words[-1] not in {"HTTP/1.1", "HTTP/1.0"} or not length.isdigit():
            log("WARNING:  Invalid HTTP request received.")
            self._send(400, b"Invalid HTTP request received.", "text/plain; charset=utf-8", last=True)
        elif len(rest) >= int(length):
            self._buffer = rest[int(length) :]
            self._busy = True
            self.server.answer(Request(self, words[0], words[1], headers, rest[: int(length)]))

    def _send(self, status: int, body: bytes, kind: str, *, last: bool, bare: bool = False) -> None:
        head = f"HTTP/1.1 {status} {REASONS[status]}\r\nserver: uvicorn\r\ncontent-length: {len(body)}\r\n"
        head += f"content-type: {kind}\r\n" if body and kind else ""
        head += "connection: close\r\n\r\n" if last else "\r\n"
        try:
            self.sock.sendall(head.encode() + (b"" if bare else body))
        except OSError:
            last = True
        if last:
            self.close()

    def reply(self, request: Request, status: int, body: bytes, kind: str) -> None:
        """Send an answer and take up the next request of this connection."""
        if self.server.access_log:
            log(f'INFO:     {self.peer} - "{request.method} {request.target} HTTP/1.1" {status} {REASONS[status]}')
        if self.sock.fileno() < 0:
            return
        self._busy = False
        last = request.headers.get("connection", "").lower() == "close"
        self._send(status, body, kind, last=last, bare=request.method == "HEAD")
        if self.sock.fileno() >= 0 and self._buffer:
            self._next()


class Server:
    """A listening port whose requests go to one function."""

    def __init__(
        self, loop: Loop, address: tuple[str, int], answer: Callable[[Request], None], *, access_log: bool
    ) -> None:
        """Listen.

        Raises:
            OSError: the port is taken or the address is not ours.
        """
        self.loop, self.answer, self.access_log = loop, answer, access_log
        self._listener = listen(*address)
        loop.watch(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            sock, peer = self._listener.accept()
        except OSError:
            return
        Connection(self, sock, f"{peer[0]}:{peer[1]}")
