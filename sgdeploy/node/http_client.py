"""Asking HTTP servers on this host, within a bound and without proxies; the operation ``http``."""

from __future__ import annotations

import json
from functools import partial

from .errors import OpError
from .files import TEXT_LIMIT
from .threads import Later

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .call import Call
    from .errors import Json


HTTP_OK = 200


def at_once(response: Any) -> bytes:
    """Read an answer to its end, at most as much as anybody wants to see."""
    data: bytes = response.read(TEXT_LIMIT)
    return data


def http_request(
    where: tuple[str, int],
    method: str,
    path: str,
    headers: Json,
    body: bytes | None,
    seconds: float,
    read: Callable[[Any], bytes] = at_once,
) -> Json:
    """Ask over HTTP, straight, without proxies; never raises: ``code``, ``body`` (as ``read`` reads it), ``error``."""
    import http.client

    connection = http.client.HTTPConnection(where[0].strip("[]"), where[1], timeout=seconds)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return {"code": response.status, "body": read(response), "error": None}
    except (OSError, http.client.HTTPException) as error:
        return {"code": None, "body": b"", "error": why_no_answer(error)}
    except ValueError:  # Its text may hold a key.
        return {"code": None, "body": b"", "error": "a header or the path holds characters that HTTP forbids"}
    finally:
        connection.close()


def why_no_answer(error: Exception) -> str:
    """Give ``refused``, ``timeout``, ``reset``, or the error in words."""
    # By name, since before Python 3.10 the time-out of a socket was no TimeoutError.
    names = {"ConnectionRefusedError": "refused", "ConnectionResetError": "reset"}
    names.update({"timeout": "timeout", "TimeoutError": "timeout"})
    name = type(error).__name__
    return names.get(name) or f"{name}: {error}"


def put(
    call: Call, method: str, path: str, question: Any, seconds: float, read: Callable[[Any], bytes] = at_once
) -> Json:
    """Put a question in JSON to the server that a request names, with its key; as ``http_request``, and bounded."""
    headers = {"Content-Type": "application/json"}
    if call.get("api_key"):
        headers["Authorization"] = "Bearer " + call["api_key"]
    body = None if question is None else json.dumps(question).encode()
    ask = partial(http_request, (call["address"], call["port"]), method, path, headers, body, seconds, read)
    try:
        answer: Json = Later(ask).wait(seconds + 1.0)
    except OpError:
        return {"code": None, "body": b"", "error": "timeout"}
    return answer


def op_http(call: Call) -> Json:
    """Ask one question over HTTP on this host (a router's workers, an engine's own view); never raises."""
    seconds = float(call.get("timeout", 10.0))
    answer = put(call, call.get("method", "GET"), call["path"], call.get("body"), seconds)
    return {"status": answer["code"], "body": answer["body"].decode("utf-8", "replace"), "error": answer["error"]}
