"""The operation ``complete``: one completion, at once or streamed, told as it came."""

from __future__ import annotations

import json
import time
from functools import partial

from .files import TEXT_LIMIT
from .http_client import HTTP_OK, put
from .logs import clean

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from .call import Call
    from .errors import Json


class Stopwatch:
    """Reads a streamed answer and notes when its first text came."""

    def __init__(self) -> None:
        """Start to count."""
        self._begin = time.monotonic()
        self.first: float | None = None

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return round(time.monotonic() - self._begin, 3)

    def read(self, response: Any) -> bytes:
        """Read an answer line by line, as far as anybody wants to see it."""
        lines, size = [], 0
        for line in iter(partial(response.readline, TEXT_LIMIT), b""):
            if self.first is None and streamed_text(line):
                self.first = self.seconds
            lines.append(line)
            size += len(line)
            if size > TEXT_LIMIT:
                break
        return b"".join(lines)


def op_complete(call: Call) -> Json:
    """Ask for a completion on this host; whatever comes back is told, not raised."""
    seconds = float(call.get("timeout", 60.0))
    question = {"model": call["model"], "prompt": call["prompt"], "max_tokens": call["max_tokens"], "temperature": 0}
    if call.get("stream"):
        question.update({"stream": True, "stream_options": {"include_usage": True}})
    watch = Stopwatch()
    answer = put(call, "POST", "/v1/completions", question, seconds, watch.read)
    text, tokens, error = "", 0, answer["error"]
    if answer["code"] is not None and answer["code"] != HTTP_OK:
        start = clean(b" ".join(answer["body"].split()), 300)
        error = "HTTP {}: {}".format(answer["code"], start or "empty body")
    elif error is None:
        streamed = answer["body"].lstrip().startswith(b"data:")
        text, tokens, error = (read_stream if streamed else read_completion)(answer["body"])
    return {
        "status": answer["code"],
        "tokens": tokens,
        "text": text,
        "seconds": watch.seconds,
        "first_token": watch.first,
        "error": error,
    }


def read_completion(body: bytes) -> tuple[str, int, str | None]:
    """Take text and number of tokens out of an answer; the text is counted where the server did not count."""
    try:
        answer = json.loads(body)
        text = str(answer["choices"][0]["text"])
        counted = (answer.get("usage") or {}).get("completion_tokens")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", 0, "the answer is no completion: " + clean(body, 300)
    return text, counted if isinstance(counted, int) else len(text.split()) or int(bool(text)), None


def streamed_chunk(line: bytes) -> Json:
    """Take the JSON out of a line of a stream (server-sent events); {} where there is none."""
    try:
        chunk = json.loads(line[len(b"data:") :]) if line.startswith(b"data:") else {}
    except (ValueError, RecursionError):
        return {}
    return chunk if isinstance(chunk, dict) else {}


def streamed_text(line: bytes) -> str:
    """Take the text out of a line of a stream."""
    try:
        return str(streamed_chunk(line)["choices"][0]["text"] or "")
    except (LookupError, TypeError):
        return ""


def read_stream(body: bytes) -> tuple[str, int, str | None]:
    """Take text and number of tokens out of a streamed answer; pieces are counted where the server did not count."""
    pieces, counted = [], None
    for line in body.splitlines():
        chunk = streamed_chunk(line)
        if chunk.get("error"):
            return "", 0, "the stream ended with an error: " + clean(line, 300)
        pieces.append(streamed_text(line))
        usage = chunk.get("usage")
        counted = usage.get("completion_tokens") if isinstance(usage, dict) else counted
    text = "".join(pieces)
    return text, counted if isinstance(counted, int) else sum(map(bool, pieces)), None
