"""A controller in small: starts the node helper through the real bootstrap and talks to it."""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from sgdeploy.node.boot import BOOTSTRAP, PYTHON_FLAGS
from sgdeploy.parcels import sources
from sgdeploy.remote.channel import packed, packed_helper

Json: TypeAlias = "dict[str, Any]"

PATIENCE = 20.0
"""Seconds after which a test gives up on an answer."""


class RefusedError(Exception):
    """The helper answered with an error."""

    def __init__(self, error: Json) -> None:
        """Keep its parts."""
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.details: Json = error["details"]
        self.hint: str | None = error["hint"]


class Stream:
    """The events of one operation."""

    def __init__(self, helper: Helper, ident: int, box: queue.Queue[Json | None]) -> None:
        """Keep where its messages arrive."""
        self._helper = helper
        self.ident = ident
        self._box = box
        self.result: Json = {}

    def next(self, seconds: float = PATIENCE) -> Json | None:
        """Give the next event, None at the end.

        Raises:
            RefusedError: the operation failed.
        """
        try:
            message = self._box.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"no message of operation {self.ident} within {seconds} s") from None
        if message is None:
            raise AssertionError("the helper ended")
        if "event" in message:
            return dict(message["event"])
        if not message["ok"]:
            raise RefusedError(message["error"])
        self.result = message["result"]
        return None

    def __iter__(self) -> Iterator[Json]:
        """Yield events until the end."""
        while (event := self.next()) is not None:
            yield event

    def until(self, met: Callable[[Json], bool], what: str, seconds: float = PATIENCE) -> Json:
        """Give the first observation that meets the condition."""
        deadline = time.monotonic() + seconds
        seen: list[Json] = []
        while time.monotonic() < deadline:
            event = self.next(max(0.1, deadline - time.monotonic()))
            for row in (event or {}).get("observations", []):
                observation: Json = row
                seen.append(observation)
                if met(observation):
                    return observation
        raise AssertionError(f"waited {seconds} s for {what}; saw {seen}")

    def cancel(self) -> None:
        """End it."""
        self._helper.call("cancel", target=self.ident)


class Helper:
    """A running node helper."""

    def __init__(
        self,
        *,
        modules: Mapping[str, bytes] | None = None,
        tag: str = "",
        before: tuple[str, ...] = (),
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            modules: other modules than its own.
            tag: makes its Python another one than the parcel's bytecode is for.
            before: words of a program that ends by running the rest of its arguments.
            python: what runs it.
            env: more variables.
        """
        self.process = subprocess.Popen(
            [*before, python, *PYTHON_FLAGS, "-c", BOOTSTRAP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **(env or {})},
        )
        self._write(tag.encode() + (packed_helper() if modules is None else packed(modules)))
        self._numbers = itertools.count(1)
        self._boxes: dict[int | None, queue.Queue[Json | None]] = {None: queue.Queue()}
        self.noise: list[bytes] = []
        self._greeted = threading.Event()
        self.hello: Json = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._greeted.wait(PATIENCE), "the helper did not say hello"
        assert self.hello, f"the helper ended before it said hello: {self.noise}"

    @property
    def pid(self) -> int:
        """The helper's own pid."""
        pid: int = self.hello["pid"]
        return pid

    def stream(self, op: str, **arguments: Any) -> Stream:
        """Send a request."""
        ident = next(self._numbers)
        box: queue.Queue[Json | None] = queue.Queue()
        self._boxes[ident] = box
        self._write(json.dumps({"id": ident, "op": op, **arguments}).encode() + b"\n")
        return Stream(self, ident, box)

    def call(self, op: str, **arguments: Any) -> Json:
        """Send a request and give its result; events on the way are dropped."""
        stream = self.stream(op, **arguments)
        for _ in stream:
            pass
        return stream.result

    def raw(self, line: bytes) -> Json:
        """Send any bytes as a line and give the answer that belongs to no request."""
        self._write(line + b"\n")
        answer = self._boxes[None].get(timeout=PATIENCE)
        assert answer is not None
        return answer

    def close(self) -> int:
        """Close its stdin and give its exit code."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """End it without any warning."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def _write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if self._greeted.is_set():
                message = json.loads(line)
                self._boxes[message["id"]].put(message)
            elif line.startswith(b"SGDEPLOY-NODE "):
                self.hello = json.loads(line.partition(b" ")[2])
                self._greeted.set()
            else:
                self.noise.append(line)
        self._greeted.set()
        for box in list(self._boxes.values()):
            box.put(None)


def patched(*changes: tuple[str, str]) -> dict[str, bytes]:
    """Give the helper's modules with some lines replaced, for what cannot be provoked from outside."""
    texts = {name: source.decode() for name, source in sources("node").items()}
    for old, new in changes:
        found = sum(text.count(old) for text in texts.values())
        assert found == 1, f"the sources hold {found} times: {old}"
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    return {name: text.encode() for name, text in texts.items()}


def wait_for(met: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Look every 20 ms until something true comes back, and give it."""
    deadline = time.monotonic() + seconds
    while not (found := met()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)
    return found


def start_ticks(pid: int) -> int:
    """Give the start time of a process as the kernel counts it."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def living(pid: int) -> bool:
    """Whether a process lives (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
