"""TCP sockets on addresses of either family."""

from __future__ import annotations

import socket

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


def endpoint(host: str, port: int) -> tuple[socket.socket, Any]:
    """Make a TCP socket of the address's family, and the address in the form that this family takes.

    Raises:
        OSError: the name does not resolve.
    """
    name = host.encode()  # given a str, getaddrinfo imports the idna codec: 5 ms and a megabyte for every rank
    family, kind, proto, _, address = socket.getaddrinfo(name, port, 0, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)[0]
    return socket.socket(family, kind, proto), address


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket on one address.

    Raises:
        OSError: the port is taken, or the address is not ours.
    """
    sock, address = endpoint(host, port)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def connect(host: str, port: int, limit: float) -> socket.socket:
    """Connect within so many seconds.

    Raises:
        OSError: nobody listens there, or nobody answers.
    """
    sock, address = endpoint(host, port)
    sock.settimeout(limit)
    try:
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


def somebody_answers(where: tuple[str, int]) -> bool:
    """Tell whether whoever holds the port answers /model_info with 200."""
    try:
        with connect(*where, 5.0) as sock:
            sock.sendall(b"GET /model_info HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return b" 200 " in sock.recv(64)
    except OSError:
        return False
