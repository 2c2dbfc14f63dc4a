"""Servers that answer anything at all: a completion is told or refused within its bound, and costs no memory."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.node.wire import Helper, Json

Server = Callable[[socket.socket], None]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
LIMIT = 1.0


@contextlib.contextmanager
def serving(server: Server) -> Iterator[int]:
    """Give the port of a server that says what it likes to its one client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)

        def serve() -> None:
            client, _ = listener.accept()
            with client, contextlib.suppress(OSError):
                client.settimeout(20)
                client.recv(65536)
                server(client)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):  # a socket that is closed with something unread resets what was said
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join(20)
            assert not thread.is_alive(), "the client has not let go of the server"


def saying(data: bytes) -> Server:
    return lambda client: client.sendall(data)


def ask(node: Helper, port: int) -> Json:
    question = {"model": "m", "prompt": "Hi", "max_tokens": 8, "api_key": None, "timeout": LIMIT, "stream": True}
    return node.call("complete", address="127.0.0.1", port=port, **question)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (HEAD + b"[" * 200_000, "the answer is no completion: [[["),
        (HEAD + b"data: " + b'{"a":' * 200_000 + b"\n\n", None),
        (HEAD + b'{"choices": [{"text": "a"}], "usage": [1]}', "the answer is no completion"),
        (HEAD + b'{"choices": [{"text": "a"}', "the answer is no completion"),
        (HEAD + b"\xff\xfe\x00", "the answer is no completion"),
        (HEAD + b"\x1b]0;title\x07\x1b[2Jno", "the answer is no completion: no"),
        (HEAD, "the answer is no completion: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}", "the answer is no completion: {}"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ""),
        (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n", "HTTP 302: empty body"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "LineTooLong"),
        (b"", "RemoteDisconnected"),
    ],
)
def test_whatever_is_said_is_told(node: Helper, data: bytes, error: str | None) -> None:
    with serving(saying(data)) as port:
        got = ask(node, port)
    assert got["tokens"] == 0
    assert error is None or error in got["error"]
    assert "\x1b" not in str(got)


def dribble(client: socket.socket) -> None:
    """Say one more byte again and again, so that no read ever waits for long."""
    client.sendall(HEAD)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        client.sendall(b" ")
        time.sleep(0.02)


def test_an_answer_without_an_end_is_given_up(node: Helper) -> None:
    begin = time.monotonic()
    with serving(dribble) as port:
        got = ask(node, port)
        assert time.monotonic() - begin < LIMIT + 5
        node.close()  # what still reads there ends with it
    assert (got["status"], got["error"], got["tokens"]) == (None, "timeout", 0)


def flood(client: socket.socket) -> None:
    """Say a gigabyte without a line end, or as much of it as anybody takes."""
    client.sendall(HEAD)
    block = bytes(1 << 20)
    for _ in range(1024):
        client.sendall(block)


def test_a_gigabyte_of_an_answer_costs_no_memory(node: Helper) -> None:
    def peak() -> int:
        status = Path(f"/proc/{node.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    before = peak()
    with serving(flood) as port:
        got = ask(node, port)
    assert got["tokens"] == 0
    assert peak() - before < 32 * 1024
