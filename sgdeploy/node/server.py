"""The server of one connection: requests come on stdin, answers and events go to stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from functools import partial

from .call import Call
from .clear import op_clear, op_restore
from .completions import op_complete
from .errors import OpError, Outcome
from .files import MIB
from .gather import op_gather
from .hello import SILENCE, since_boot
from .http_client import op_http
from .lastrun import op_last_run
from .lock_release import TAKE, op_lock_release, op_lock_state
from .locks import Locks
from .logs import op_logs
from .ports import op_ports
from .prepare import op_prepare
from .records import op_audit, op_records
from .start import Start
from .stop import op_about_to_end, op_await_gone, op_signal
from .watch import Watch

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .errors import Json


FROZEN = 30.0
"""Seconds of standing still (stopped, a suspended machine) after which its controller has given the helper up: it ends
then, and does nothing of what has been waiting for it."""
REQUEST_LIMIT = 64 * MIB


class Server:
    """Reads requests from stdin, works on each in a thread, writes answers to stdout."""

    def __init__(self, parcel: bytes, awake: float) -> None:
        """Keep the parcel that we came as, which keepers are made of, and when (since boot) we were last awake."""
        self._parcel = parcel
        self._locks = Locks()
        self._calls: dict[Any, Call] = {}
        self._writing = threading.Lock()
        self._changing = threading.Lock()
        self._heard = time.monotonic()
        self._awake = awake
        self._operations: dict[str, Callable[[Call], Json]] = {
            "ping": lambda _: {"time": time.time()},
            "cancel": self._cancel,
            "took": self._took,
            "gather": op_gather,
            "ports": op_ports,
            "lock": self._locks.lock,
            "unlock": self._locks.unlock,
            "lock_owner": self._locks.owner,
            "lock_hold": self._locks.hold,
            "lock_state": op_lock_state,
            "lock_release": op_lock_release,
            "prepare": self._alone(op_prepare),
            "records": op_records,
            "start": self._alone(lambda call: Start(call, self._parcel).run()),
            "watch": lambda call: Watch(call).run(),
            "about_to_end": op_about_to_end,
            "signal": op_signal,
            "await_gone": op_await_gone,
            "restore": self._alone(op_restore),
            "clear": self._alone(op_clear),
            "logs": op_logs,
            "last_run": op_last_run,
            "read_logs": read_logs,
            "complete": op_complete,
            "http": op_http,
            "audit": op_audit,
        }

    def run(self) -> None:
        """Serve until stdin ends; a controller that is silent for too long counts as gone."""
        signal.signal(TAKE, self._locks.take_away)
        threading.Thread(target=self._end_when_silent, daemon=True).start()
        while True:
            line = sys.stdin.buffer.readline(REQUEST_LIMIT)
            self._end_if_frozen()
            self._heard = time.monotonic()
            self._locks.heard()
            if not line.endswith(b"\n"):
                break
            outcome = Outcome()
            with outcome:
                self._take(line)
            if outcome.fault is not None:
                self._send({"id": None, "ok": False, "error": outcome.fault.to_json()})
        self._locks.release_all()

    def _take(self, line: bytes) -> None:
        try:
            request = json.loads(line)
            call = Call(request.pop("id", None), request, partial(self._send))
            work = self._operations.get(request["op"])
        except (ValueError, TypeError, AttributeError) as error:
            raise OpError("bad-request", f"a request is one JSON object per line: {error}") from error
        if work is None:
            work = self._unknown
        self._calls[call.ident] = call
        threading.Thread(target=self._answer, args=(call, work), daemon=True).start()

    def _answer(self, call: Call, work: Callable[[Call], Json]) -> None:
        outcome = Outcome()
        result: Json = {}
        with outcome:
            result = work(call)
        self._calls.pop(call.ident, None)
        answer: Json = {"id": call.ident, "ok": True, "result": result}
        if outcome.fault is not None:
            answer = {"id": call.ident, "ok": False, "error": outcome.fault.to_json()}
        self._send(answer)

    def _alone(self, work: Callable[[Call], Json]) -> Callable[[Call], Json]:
        """Let what changes the run folder happen one after the other."""

        def run(call: Call) -> Json:
            patience = 60.0
            if not self._changing.acquire(timeout=patience):
                raise OpError("busy", f"another change of the run folder has not ended within {patience:.0f} s")
            try:
                return work(call)
            finally:
                self._changing.release()

        return run

    def _cancel(self, call: Call) -> Json:
        target = self._calls.get(call["target"])
        if target is not None:
            target.cancelled.set()
        return {}

    def _took(self, call: Call) -> Json:
        target = self._calls.get(call["target"])
        if target is not None:
            target.took()
        return {}

    @staticmethod
    def _unknown(call: Call) -> Json:
        raise OpError("unknown-op", "this node helper knows no operation {!r}".format(call["op"]))

    def _send(self, message: Json) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        with self._writing:
            try:
                while data:
                    data = data[os.write(1, data) :]
            except OSError:
                os._exit(0)  # Nobody reads any more.

    def _end_when_silent(self) -> None:
        while time.monotonic() - self._heard < SILENCE:
            time.sleep(1.0)
            self._end_if_frozen()
            self._awake = since_boot()
        self._locks.release_all()
        os.write(2, b"its controller has said nothing for %d s\n" % SILENCE)
        os._exit(0)

    def _end_if_frozen(self) -> None:
        """End if we stood still: meanwhile somebody else may have taken over."""
        still = since_boot() - self._awake
        if still > FROZEN:
            os.write(2, b"it stood still for %d s, longer than it is waited for\n" % still)
            os._exit(1)


def read_logs(call: Call) -> Json:
    """Read logs line by line; what that takes is loaded when it is first asked for."""
    from .readlogs import ReadLogs

    return ReadLogs(call).run()
