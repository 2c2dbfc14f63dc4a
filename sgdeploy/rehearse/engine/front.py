"""The HTTP side of the main process: the served API, a follower's bare health port, the bootstrap port of a prefill."""

from __future__ import annotations

import os
import time

from .basics import DECODE_SECONDS, HEALTH_LIMIT, HEALTH_SECONDS, SPEED, clock, log
from .completions import Asked, complaint
from .http_server import Server
from .sockets import somebody_answers

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from .engine import Engine
    from .http_server import Request
    from .settings import Settings


HEALTHS = ("/health", "/health_generate")
FLAGS = ("/ping", "/ready")  # answered at once, from what the last health check found
COMPLETIONS = ("/v1/completions", "/v1/chat/completions", "/generate")
OPERATIONS = ("/freeze_gc", "/flush_cache")
INFOS = ("/model_info", "/get_model_info", "/server_info", "/get_server_info", "/v1/models")
METHODS = {
    **dict.fromkeys(("/", *HEALTHS, *FLAGS, *INFOS), ("GET",)),
    **dict.fromkeys(COMPLETIONS, ("POST",)),
    **dict.fromkeys(OPERATIONS, ("GET", "POST")),
}
OPENED = ("/health", "/ready", "/metrics")  # what begins like this never asks for the key
NOT_FOUND = b'{"detail":"Not Found"}'
NOT_ALLOWED = b'{"detail":"Method Not Allowed"}'


class Front:
    """The ports of the main process: who is answered what, and when."""

    def __init__(self, engine: Engine) -> None:
        """Belong to a main process; no port is open before one of the ``open_`` methods was called."""
        self._engine = engine
        self._waiting: dict[str, Callable[[], None]] = {}  # round → what follows its end
        self._asked = 0
        self._heard = time.time()
        self.well = True  # what the last health check found
        self.busy = 0  # completions that are not answered yet

    def settled(self, number: str) -> None:
        """Hear that a round through all ranks has ended."""
        self._heard = time.time()
        call = self._waiting.pop(number, None)
        if call is not None:
            call()

    def _ask(self, call: Callable[[], None]) -> str:
        """Let rank 0 go one round through all ranks, then call back; never, if one of them does not answer."""
        if not self._engine.schedulers:
            self._engine.loop.after(0, call)
            return ""
        self._asked += 1
        number = str(self._asked)
        self._waiting[number] = call
        self._engine.schedulers[0].wire.send("ask " + number)
        return number

    def _serve(self, where: tuple[str, int], answer: Callable[[Request], None], *, access_log: bool) -> None:
        if "port-taken" in self._engine.modes:
            raise OSError
        Server(self._engine.loop, where, answer, access_log=access_log)

    def open_bootstrap(self) -> None:
        """Open the port on which decode instances find a prefill; one that is taken is only told."""
        where = (self._engine.settings.host, self._engine.settings.bootstrap_port)

        def answer(request: Request) -> None:
            request.reply(200 if request.path == "/health" else 404, b"OK", "text/plain")

        try:
            Server(self._engine.loop, where, answer, access_log=False)
            log("CommonKVBootstrapServer started successfully on {}:{}".format(*where))
        except OSError as error:
            log(f"Server error: [Errno {error.errno}] error while attempting to bind on address {where}")

    def open_dummy(self) -> None:
        """Open the bare health port of a follower."""
        where = (self._engine.settings.host, self._engine.settings.port)

        def answer(request: Request) -> None:
            if request.path not in {"/ping", *HEALTHS, *(["/metrics"] if self._engine.settings.metrics else [])}:
                request.reply(404, NOT_FOUND)
            elif request.method != "GET":
                request.reply(405, NOT_ALLOWED)
            else:
                request.reply(200)

        log("Dummy health check server started in background thread at {}:{}".format(*where))
        try:
            self._serve(where, answer, access_log=False)
        except OSError:  # only the real one's thread dies of it: the rank goes on without a health port
            log(f"ERROR:    [Errno 98] error while attempting to bind on address {where}: address already in use")
            log("Dummy health check server stopped at {}:{}".format(*where))

    def open_http(self) -> None:
        """Open the served port of a leader, and warm up."""
        log("Engine startup timings (s): load_weight=0.30, kv_cache_allocation=0.10, scheduler_e2e=0.50")
        log(f"INFO:     Started server process [{os.getpid()}]")
        log("INFO:     Waiting for application startup.")
        log("INFO:     Application startup complete.")
        where = (self._engine.settings.host, self._engine.settings.port)
        try:
            self._serve(where, self.answer, access_log=True)
        except OSError:
            self._port_is_taken(where)
        shown = f"[{where[0]}]" if ":" in where[0] else where[0]
        log(f"INFO:     Uvicorn running on http://{shown}:{where[1]} (Press CTRL+C to quit)")
        self._engine.state = "warming"
        if self._engine.settings.skip_warmup or self._engine.settings.http_only:
            self._ready()
        else:
            self._engine.loop.after(0.4 / SPEED, self._warm_up)

    def _warm_up(self) -> None:
        split = self._engine.settings.mode in {"prefill", "decode"}
        if split:
            log("Start of pd disaggregation warmup ...")

        def done() -> None:
            log('INFO:     127.0.0.1:1 - "POST /generate HTTP/1.1" 200 OK')
            if split:
                log("Disaggregation warmup requests completed for all 1 DP ranks")
                log("End of disaggregation warmup")
            log('INFO:     127.0.0.1:1 - "POST /freeze_gc HTTP/1.1" 200 OK')
            self._ready()

        self._ask(done)

    def _ready(self) -> None:
        if self._engine.state == "warming":
            self._engine.state = "up"
        log("The server is fired up and ready to roll!")

    def _port_is_taken(self, where: tuple[str, int]) -> NoReturn:
        """Do as the real one does: the warm-up goes to whoever holds the port; then leave with 3."""
        log(f"ERROR:    [Errno 98] error while attempting to bind on address {where}: address already in use")
        goodbye()
        until = time.monotonic() + 120.0 / SPEED
        while "port-taken" not in self._engine.modes and time.monotonic() < until:
            if somebody_answers(where):
                log("The server is fired up and ready to roll!")
                break
            self._engine.loop.wait(lambda: False, 0.5 / SPEED)
        self._engine.kill_tree(itself=False)
        os._exit(3)

    def answer(self, request: Request) -> None:
        """Answer one request to the leader."""
        path, key = request.path, self._engine.settings.api_key
        methods = METHODS.get(path, ("GET",) if path.startswith("/v1/models/") else ())
        locked = key and request.headers.get("authorization") != "Bearer " + key
        if "401" in self._engine.modes or (locked and not path.startswith(OPENED)):
            request.reply(401, b'{"error":"Unauthorized"}')
        elif path == "/metrics" and self._engine.settings.metrics:
            name, tokens = self._engine.settings.served, self._engine.settings.kv_tokens
            text = f'sglang:max_total_num_tokens{{model_name="{name}"}} {tokens}\n'
            request.reply(200, text.encode(), "text/plain; version=0.0.4")
        elif not methods:
            request.reply(404, NOT_FOUND)
        elif request.method not in methods:
            request.reply(405, NOT_ALLOWED)
        elif path in COMPLETIONS:
            self._complete(request)
        elif path in HEALTHS:
            self._health(request)
        elif path in FLAGS:
            request.reply(200 if self._engine.state == "up" and self.well else 503)
        elif path in OPERATIONS:
            request.reply(200, b"Done.\n", "")
        else:
            self._info(request)

    def _complete(self, request: Request) -> None:
        try:
            asked = Asked(request, self._engine.settings)
        except (ValueError, TypeError, AttributeError) as error:
            request.reply(400, complaint(request.path, str(error)))
            return
        asked.count = 0 if "no-tokens" in self._engine.modes else asked.count
        self.busy += 1

        def done() -> None:
            self.busy -= 1
            asked.answer()

        self._ask(lambda: self._engine.loop.after(asked.count * DECODE_SECONDS, done))

    def _health(self, request: Request) -> None:
        if self._engine.state == "draining":
            log("Health check request received during shutdown. Returning 503.")
        if self._engine.state != "up":
            request.reply(503)
            return
        began = time.time()
        number = self._ask(lambda: None)

        def look(again: float) -> None:
            if number not in self._waiting:
                self.well = True
                request.reply(200)
            elif time.time() - began < HEALTH_LIMIT:
                self._engine.loop.after(again, lambda: look(again))
            else:
                del self._waiting[number]
                self.well = False
                log(
                    "Health check failed. Server couldn't get a response from detokenizer for last "
                    f"{HEALTH_LIMIT:g} seconds. tic start time: {clock(began)}. "
                    f"last_heartbeat time: {clock(self._heard)}"
                )
                request.reply(503)

        self._engine.loop.after(HEALTH_SECONDS, lambda: look(min(1.0, HEALTH_LIMIT)))

    def _info(self, request: Request) -> None:
        import json

        path, settings = request.path, self._engine.settings
        if path.startswith("/get_"):
            path = "/" + path[len("/get_") :]
            log(
                f"Endpoint '{request.path}' is deprecated and will be removed in a future version. "
                f"Please use '{path}' instead."
            )
        model = path[len("/v1/models/") :]
        if model and path.startswith("/v1/models/") and model != settings.served:
            said = {"message": f"The model '{model}' does not exist", "type": "invalid_request_error"}
            body = {"error": {**said, "param": "model", "code": "model_not_found"}}
            request.reply(404, json.dumps(body).encode())
        else:
            request.reply(200, json.dumps(about(path, settings)).encode())


def goodbye() -> None:
    """Say what the web server says at its end."""
    log("INFO:     Waiting for application shutdown.")
    log("INFO:     Application shutdown complete.")


def about(path: str, settings: Settings) -> object:
    """Give what one of the information endpoints says."""
    named: dict[str, Any] = {"model_path": settings.model, "served_model_name": settings.served}
    named["disaggregation_mode"] = settings.mode
    if path == "/":
        return "SGLang is running"
    if path == "/model_info":
        named.update({"tokenizer_path": settings.model, "is_generation": True, "weight_version": "default"})
        return {**named, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    if path == "/server_info":
        named.update({"version": "0.5.23", "tp_size": settings.tp, "dp_size": settings.dp, "pp_size": settings.pp})
        return {**named, "max_total_num_tokens": settings.kv_tokens, "status": "ready", "internal_states": [{}]}
    card: dict[str, Any] = {"id": settings.served, "object": "model", "created": int(time.time())}
    card.update({"owned_by": "sglang", "root": settings.served, "parent": None, "max_model_len": 16384})
    return {"object": "list", "data": [card]} if path == "/v1/models" else card
