"""Completions: requests read and answered, whole or as a stream, with the keys of the real engine."""

from __future__ import annotations

import time

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from .http_server import Request
    from .settings import Settings


WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "rain", "falls")
NATURAL_LENGTH = 32  # tokens after which a completion stops by itself


class Asked:
    """A request for a completion; the text depends on the prompt alone.

    Raises:
        ValueError, TypeError, AttributeError: it makes no sense; the engine answers 400.
    """

    def __init__(self, request: Request, settings: Settings) -> None:
        """Read the request; each endpoint has its own names and default limit."""
        import json

        self.request = request
        asked = json.loads(request.body or b"null")
        sampling = asked
        if request.path == "/generate":
            sampling = asked.get("sampling_params") or {}
            limit = sampling.get("max_new_tokens", 128)
            prompt = asked.get("text") or asked.get("input_ids")
        elif request.path == "/v1/completions":
            limit, prompt = asked.get("max_tokens", 16), asked.get("prompt")
        else:
            limit = asked.get("max_completion_tokens") or asked.get("max_tokens", NATURAL_LENGTH)
            prompt = " ".join(str(message.get("content")) for message in asked.get("messages") or ())
        if not prompt:
            raise ValueError("Field required: the prompt")
        if int(limit) < 1:
            raise ValueError("max_tokens must be positive")
        self.prompt = prompt if isinstance(prompt, str) else " ".join(str(item) for item in prompt)
        self.limit = int(limit)
        self.count = self.limit if sampling.get("ignore_eos") else min(self.limit, NATURAL_LENGTH)
        self.stream = bool(asked.get("stream"))
        self.counts = bool((asked.get("stream_options") or {}).get("include_usage"))
        self.model = str(asked.get("model", settings.served))  # answered under the name it was asked for

    def answer(self) -> None:
        """Answer with everything at once, or as the events of a stream."""
        import json

        start = sum(self.prompt.encode())
        words = [" " + WORDS[(start + step) % len(WORDS)] for step in range(self.count)]
        finish = "length" if self.count == self.limit else "stop"
        shape = Shape(self.request.path, self.model, len(self.prompt.split()))
        if not self.stream:
            self.request.reply(200, json.dumps(shape.whole("".join(words), self.count, finish)).encode())
            return
        chunks = []
        for step in range(self.count + 1):  # those of /generate are cumulative
            cumulative = self.request.path == "/generate"
            text = "".join(words[: step + 1] if cumulative else words[step : step + 1])
            last = step == self.count
            chunks.append(shape.chunk(text, min(step + 1, self.count), finish if last else None, first=not step))
        if self.counts and self.request.path != "/generate":
            chunks.append(shape.count(self.count))
        lines = ["data: " + json.dumps(chunk) + "\n\n" for chunk in chunks]
        self.request.reply(200, "".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream; charset=utf-8")


class Shape:
    """The JSON of a completion, whole or in chunks, for one of the three endpoints, with the keys of the real one."""

    def __init__(self, path: str, model: str, prompt_tokens: int) -> None:
        """Keep what is in every form."""
        self.path, self.model, self.prompt_tokens = path, model, prompt_tokens

    @staticmethod
    def _weights(tokens: int) -> dict[str, Any]:
        versions = [{"version": "default", "start": 0, "end": tokens}]
        return {"weight_version": "default", "weight_versions": versions}

    def whole(self, text: str, tokens: int, finish: str) -> dict[str, Any]:
        """Give the answer to a request that wants no stream."""
        if self.path == "/generate":
            return self._native(text, tokens, finish)
        message = {"role": "assistant", "content": text, "reasoning_content": None}
        said = {"message": message} if self.path == "/v1/chat/completions" else {"text": text}
        whole = self._openai(said, finish, "chat.completion")
        return {**whole, "usage": self._usage(tokens), "metadata": self._weights(tokens)}

    def count(self, tokens: int) -> dict[str, Any]:
        """Give the last event of a stream that was asked to count (``include_usage``): no choice, only the usage."""
        counted = self._openai({}, None, "chat.completion.chunk")
        return {**counted, "choices": [], "usage": self._usage(tokens)}

    def _usage(self, tokens: int) -> dict[str, Any]:
        usage = {"prompt_tokens": self.prompt_tokens, "completion_tokens": tokens, "reasoning_tokens": 0}
        details = {"prompt_tokens_details": None, "completion_tokens_details": None}
        return {**usage, "total_tokens": self.prompt_tokens + tokens, **details}

    def chunk(self, text: str, tokens: int, finish: str | None, *, first: bool) -> dict[str, Any]:
        """Give one event of a stream; ``finish`` is None for all but the last."""
        if self.path == "/generate":
            return self._native(text, tokens, finish)
        if self.path == "/v1/completions":
            return {**self._openai({"text": text}, finish, ""), "usage": None}
        delta = {"content": text, "reasoning_content": None, **({"role": "assistant"} if first else {})}
        return self._openai({"delta": delta}, finish, "chat.completion.chunk")

    def _native(self, text: str, tokens: int, finish: str | None) -> dict[str, Any]:
        meta: dict[str, Any] = {"id": "rehearsal", "prompt_tokens": self.prompt_tokens, "completion_tokens": tokens}
        meta.update({"cached_tokens": 0, "cached_tokens_details": None, "reasoning_tokens": 0, "num_retractions": 0})
        meta.update({"weight_version": "default", "dp_rank": None, "response_sent_to_client_ts": time.time()})
        meta["finish_reason"] = finish and {"type": finish, "length": tokens}
        if finish:
            meta.update({**self._weights(tokens), "e2e_latency": 0.01})
        return {"text": text, "output_ids": list(range(tokens)), "meta_info": meta}

    def _openai(self, said: dict[str, Any], finish: str | None, kind: str) -> dict[str, Any]:
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish, "matched_stop": None}
        kind = kind if self.path == "/v1/chat/completions" else "text_completion"
        about = {"id": "rehearsal", "object": kind, "created": int(time.time()), "model": self.model}
        return {**about, "choices": [choice]}


def complaint(path: str, what: str) -> bytes:
    """Give the body of a 400 as the endpoint words it."""
    import json

    if path == "/generate":
        return json.dumps({"error": {"message": what}}).encode()
    told = {"object": "error", "message": what, "type": "Bad Request", "param": None, "code": 400}
    return json.dumps(told).encode()
