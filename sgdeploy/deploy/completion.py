"""The completion that proves that a deployment serves: one real request through the front door, with tokens back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from sgdeploy.deploy.events import Completion
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.served import Tally
from sgdeploy.plan.model import FrontDoor, Plan
from sgdeploy.remote.base import Json

PROMPT = "The capital of France is"
LONG_PROMPT = " ".join(["The quick brown fox jumps over the lazy dog."] * 136)
"""6,119 characters: long for any boundary up to the 4,096 characters that routers begin with."""

MAX_TOKENS = 8

REQUEST_LIMIT = 120.0
"""Seconds for one completion: the first one after a start without warm-up may compile kernels."""

TRIES = 5
PAUSE = 1.0
"""A leader that is just up may answer 503 for a moment; five tries a second apart cover that and no more."""

SLACK = 10.0

RETRIED = (None, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE)
"""Answers of a server that is not quite there yet; None is no answer at all."""

TOO_SLOW = "timeout"
"""What the node says of an answer that did not come within its limit: that was patience enough."""


@dataclass(frozen=True)
class Served:
    """A completion that came back.

    Attributes:
        tokens: number of tokens generated.
        text: the generated text.
        seconds: from request to answer, measured on the node.
        prompt: what was asked.
        first_token: seconds from the request to the first text, None where the server did not stream.
    """

    tokens: int
    text: str
    seconds: float
    prompt: str
    first_token: float | None = None


class NoCompletionError(Exception):
    """The front door gave no completion; the message says what it gave instead."""


async def complete(
    fleet: Fleet, door: FrontDoor, secrets: Mapping[str, str], prompt: str = PROMPT, *, tries: int = TRIES
) -> Served:
    """Send a completion on the front door's own host and insist on tokens.

    Raises:
        NoCompletionError: no tries are left; holds the last answer.
        LostHostError, NodeError: the host could not be asked.
    """
    session = fleet.sessions[door.host]
    api_key = None if door.api_key is None else secrets.get(door.api_key.variable)
    arguments: Json = {
        "address": door.address,
        "port": door.port,
        "model": door.model,
        "prompt": prompt,
        "max_tokens": MAX_TOKENS,
        "api_key": api_key,
        "timeout": REQUEST_LIMIT,
        "stream": True,
    }
    last = ""
    for number in range(tries):
        if number:
            await asyncio.sleep(PAUSE)
        answer = await session.call("complete", arguments, limit=REQUEST_LIMIT + SLACK)
        if answer["status"] == HTTPStatus.OK and answer["tokens"] > 0:
            return Served(answer["tokens"], answer["text"], answer["seconds"], prompt, answer.get("first_token"))
        last = _wrong(answer)
        if answer["status"] not in RETRIED or answer["error"] == TOO_SLOW:
            break
    raise NoCompletionError(f"{door.url}/v1/completions {last}")


async def told(fleet: Fleet, plan: Plan, secrets: Mapping[str, str], prompt: str) -> Completion:
    """Send a completion, and find out which prefill served it where the router tells.

    Raises:
        NoCompletionError, LostHostError, NodeError: as ``complete``.
    """
    tally = Tally(fleet, plan)
    before = await tally.counts()
    served = await complete(fleet, plan.front_door, secrets, prompt)
    prefill = await tally.since(before)
    return Completion(served.tokens, served.text, served.seconds, served.prompt, served.first_token, prefill)


def _wrong(answer: Json) -> str:
    status = answer["status"]
    if status is None and answer["error"] == TOO_SLOW:
        return f"gave no whole answer within {REQUEST_LIMIT:g} s"
    if status is None:
        return f"gave no answer: {answer['error']}"
    if status == HTTPStatus.OK:
        return "answered 200, but with no token in it" + (f": {answer['error']}" if answer["error"] else "")
    if status == HTTPStatus.UNAUTHORIZED:
        return "answered 401: it wants an API key; set the flag `api-key: ${env:NAME}` in the profile"
    return f"answered {status}: {answer['error']}"
