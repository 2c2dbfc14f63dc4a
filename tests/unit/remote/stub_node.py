"""A helper with operations for tests; it is sent through the real bootstrap, as the real one is."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

LOCK = threading.Lock()
CANCELLED: set[int] = set()


def say(**message: Any) -> None:
    """Write one line."""
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def work(number: int, op: str, request: dict[str, Any]) -> None:
    """Carry out one operation."""
    if op == "refuse":
        error = {"code": "no-space", "message": "3 bytes left", "hint": "clean up", "details": {"path": "/x"}}
        say(id=number, ok=False, error=error)
        return
    if op == "count":
        for k in range(request["to"]):
            say(id=number, event={"k": k})
    if op == "beat":
        while number not in CANCELLED:
            say(id=number, event={"heartbeat": 1})
            time.sleep(0.01)
    say(id=number, ok=True, result={"echo": request.get("text"), "cancelled": sorted(CANCELLED)})


def end(op: str) -> None:
    """Carry out the operations that end us."""
    if op == "crash":
        sys.stderr.write("Traceback\nValueError: broken on purpose\n")
        sys.stderr.flush()
        os._exit(3)
    if op == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if op == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def main(_: bytes) -> None:
    """Greet and serve."""
    sys.stdout.write("SGDEPLOY-NODE " + json.dumps({"protocol": 1, "pid": os.getpid(), "sid": os.getsid(0)}) + "\n")
    sys.stdout.flush()
    for line in sys.stdin.buffer:
        request = json.loads(line)
        op = request["op"]
        end(op)
        if op == "cancel":
            CANCELLED.add(request["target"])
        elif op == "took":
            say(id=request["target"], event={"told": "took"})
        elif op == "windowed":
            say(id=request["id"], event={"window": request["window"]})
        elif op == "noise":
            sys.stdout.write("not json\n[1]\n" + json.dumps({"id": 999, "ok": True}) + "\n")
            say(id=request["id"], ok=True, result={})
        elif op != "never":
            threading.Thread(target=work, args=(request["id"], op, request), daemon=True).start()
