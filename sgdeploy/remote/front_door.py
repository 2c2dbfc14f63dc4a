"""One request to a deployment from this machine, as its clients send them: through its front door, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx

from sgdeploy.errors import HostFault, RemoteError
from sgdeploy.plan.model import FrontDoor

CONNECT_LIMIT = 5.0
READ_LIMIT = 120.0
"""Seconds between two pieces of an answer: a first request may compile kernels."""
BODY_SHOWN = 300


@dataclass(frozen=True)
class Piece:
    """A part of an answer.

    Attributes:
        text: what was generated since the piece before.
        seconds: since the request was sent; of the first piece, the time to first token.
        tokens: generated so far as the server counts them, None before it has said so.
    """

    text: str
    seconds: float
    tokens: int | None = None


async def ask(
    door: FrontDoor, prompt: str, *, deployment: str, max_tokens: int, api_key: str | None
) -> AsyncIterator[Piece]:
    """Send a completion and yield its pieces as they come. No proxy of the environment is used.

    Raises:
        RemoteError: it cannot be reached from this machine, or it refuses; says what it answered.
    """
    question = {
        "model": door.model,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    timeout = httpx.Timeout(READ_LIMIT, connect=CONNECT_LIMIT)
    begin = time.monotonic()
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, trust_env=False) as client,
            client.stream("POST", f"{door.url}/v1/completions", json=question, headers=headers) as answer,
        ):
            if answer.status_code != HTTPStatus.OK:
                raise _refused(door, answer.status_code, await answer.aread())
            async for line in answer.aiter_lines():
                piece = _piece(line, time.monotonic() - begin)
                if piece is not None:
                    yield piece
    except httpx.HTTPError as error:
        reason = f"{door.url} cannot be reached from this machine: {str(error) or type(error).__name__}"
        status = f"`sgdeploy status {deployment}`"
        hint = f"see whether it runs: {status}; if it does, ask from a machine of the cluster's network"
        raise RemoteError("no answer", [HostFault(door.host, reason, hint)]) from error


def _refused(door: FrontDoor, status: int, body: bytes) -> RemoteError:
    said = " ".join(body.decode("utf-8", "replace").split())[:BODY_SHOWN]
    hint = None
    if status == HTTPStatus.UNAUTHORIZED:
        hint = "it wants an API key: set the flag `api-key: ${env:NAME}` in the profile and the variable here"
    return RemoteError(
        "no completion", [HostFault(door.host, f"{door.url} answered {status}: {said or 'nothing'}", hint)]
    )


def _piece(line: str, seconds: float) -> Piece | None:
    """Read a line of the stream (server-sent events); None for those without text or count."""
    data = line.removeprefix("data:").strip()
    if not line.startswith("data:") or data == "[DONE]":
        return None
    try:
        chunk: dict[str, Any] = json.loads(data)
        choices, usage = chunk.get("choices") or [], chunk.get("usage") or {}
        text = str(choices[0].get("text") or "") if choices else ""
    except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
        return None
    tokens = usage.get("completion_tokens")
    return Piece(text, seconds, tokens) if text or tokens is not None else None
