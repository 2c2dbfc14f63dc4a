"""Requests that both engines are asked, and what of an answer counts: status, media type, and the keys of its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.engine.polling import Answer, ask
from tests.engine.ranks import HTTP_PORT, Rank

HELLO: Mapping[str, object] = {"model": "tiny", "prompt": "hello", "max_tokens": 4}
CHAT: Mapping[str, object] = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
PLAIN: Mapping[str, object] = {"text": "hello", "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}}
LONG: Mapping[str, object] = {**HELLO, "max_tokens": 300, "ignore_eos": True}
"""Four seconds on the real engine; the simulated one is told to take as long."""

READ = ("model_path", "served_model_name", "version", "tp_size", "dp_size", "disaggregation_mode", "is_generation")
"""Fields of /model_info and /server_info that routers, clients or we read; the real engine has hundreds."""


@dataclass(frozen=True)
class Question:
    """One request.

    Attributes:
        method: of HTTP.
        path: of the URL.
        body: JSON value, bytes as they are, or None.
        about: what is special about it.
    """

    method: str
    path: str
    body: object = None
    about: str = ""

    def __str__(self) -> str:
        """Name it."""
        return f"{self.method} {self.path} {self.about}".rstrip()


QUESTIONS: Sequence[Question] = (
    Question("GET", "/"),
    Question("GET", "/liveness"),
    Question("GET", "/readiness"),
    Question("GET", "/model_info"),
    Question("GET", "/server_info"),
    Question("GET", "/get_model_info"),
    Question("GET", "/get_server_info"),
    Question("GET", "/v1/models"),
    Question("GET", "/v1/models/tiny"),
    Question("GET", "/v1/models/other"),
    Question("HEAD", "/health"),
    Question("POST", "/health", {}),
    Question("GET", "/v1/completions"),
    Question("GET", "/generate"),
    Question("GET", "/flush_cache"),
    Question("POST", "/flush_cache", {}),
    Question("POST", "/v1/completions", HELLO),
    Question("POST", "/v1/completions", {**HELLO, "stream": True}, "streamed"),
    Question("POST", "/v1/completions", {**HELLO, "model": "other"}, "for another model"),
    Question("POST", "/v1/completions", {"model": "tiny"}, "without a prompt"),
    Question("POST", "/v1/completions", {**HELLO, "max_tokens": 0}, "for no tokens"),
    Question("POST", "/v1/completions", b"prompt=hello", "that is no JSON"),
    Question("POST", "/v1/chat/completions", CHAT),
    Question("POST", "/v1/chat/completions", {**CHAT, "stream": True}, "streamed"),
    Question("POST", "/v1/chat/completions", {"model": "tiny"}, "without messages"),
    Question("POST", "/generate", PLAIN),
    Question("POST", "/generate", {**PLAIN, "stream": True}, "streamed"),
    Question("POST", "/generate", {}, "without a text"),
)
OF_A_FOLLOWER = (Question("GET", "/"), Question("GET", "/get_model_info"), Question("POST", "/v1/completions", HELLO))


def put(rank: Rank, question: Question, *, limit: float = 30.0, key: str = "") -> Answer:
    """Send a request to a rank, with an API key where one is given."""
    body = question.body
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    return ask(rank.host.address, HTTP_PORT, question.path, method=question.method, body=sent, limit=limit, key=key)


def get(rank: Rank, *paths: str) -> list[str]:
    """Give the statuses of some paths."""
    return [put(rank, Question("GET", path)).status for path in paths]


def told(answer: Answer) -> list[str]:
    """Tell an answer: its status and media type, and then what its JSON is made of."""
    head = f"{answer.status} {answer.kind}".rstrip()
    if answer.kind == "text/event-stream":
        *events, last = [line[len(b"data: ") :] for line in answer.body.splitlines() if line]
        return [head, *sorted({key for event in events for key in keys(json.loads(event))}), last.decode()]
    if answer.kind == "application/json" and answer.body:
        value = json.loads(answer.body)
        found = keys(value)
        if isinstance(value, dict) and "model_path" in value:
            found = (key for key in READ if key in value)
        return [head, *sorted(set(found))]
    return [head]


def keys(value: Any, above: str = "") -> Iterator[str]:
    """Yield the dotted paths of all keys in a JSON value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield above + key
            yield from keys(inner, f"{above}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, above)
