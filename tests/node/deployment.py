"""A deployment of stand-in processes on one host."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import uuid
from pathlib import Path
from typing import Any

from tests.node.wire import Helper, Json, living, start_ticks, wait_for

LAUNCH = {"id": uuid.uuid4().hex, "deployment": "demo", "host": "n01", "digest": "sha256:0", "owner": {"user": "me"}}
"""Its id is of this run of the tests alone, as those of real launches are: it is in the marker of every process."""
NEXT_LAUNCH = uuid.uuid4().hex


class Deployment:
    """The run folder of one host, and the helper that works on it."""

    def __init__(self, run_dir: Path, helper: Helper) -> None:
        """Keep both; another helper may take over by assignment."""
        self.run_dir = run_dir
        self.helper = helper
        self.strangers: list[int] = []

    def call(self, op: str, **arguments: Any) -> Json:
        """Ask about this run folder."""
        return self.helper.call(op, run_dir=str(self.run_dir), **arguments)

    def prepare(self, **scripts: str) -> None:
        """Write one script per process."""
        self.call("prepare", plan={"name": "demo"}, scripts=scripts, files=[])

    def start(self, *keys: str, **arguments: Any) -> Json:
        """Start these processes; gives id → pid."""
        processes = [process(key) for key in keys]
        stream = self.helper.stream(
            "start",
            **{"run_dir": str(self.run_dir), "launch": LAUNCH, "processes": processes, **arguments},
        )
        return {event["started"]: event["pid"] for event in stream if "started" in event}

    def run(self, **scripts: str) -> Json:
        """Prepare and start; gives key → pid."""
        self.prepare(**scripts)
        return {ident.partition("/")[2]: pid for ident, pid in self.start(*scripts).items()}

    def record(self, key: str) -> Json:
        """Give what ``records`` says about one process."""
        found = {record["key"]: record for record in self.call("records")["processes"]}
        record: Json = found[key]
        return record

    def alter(self, key: str, /, **changes: Any) -> None:
        """Falsify a record on disk."""
        file = self.run_dir / "processes" / f"{key}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    def log(self, key: str) -> str:
        """Give the whole log of a process."""
        return (self.run_dir / "logs" / f"{key}.log").read_text()

    def wait_log(self, key: str, text: str) -> str:
        """Wait until a log holds a text, and give the log."""
        file = self.run_dir / "logs" / f"{key}.log"
        wait_for(lambda: file.exists() and text in file.read_text(), f"{text!r} in {file.name}")
        return file.read_text()

    def keeper(self, key: str) -> int:
        """Give the pid of the keeper of a process."""
        pid: int = json.loads((self.run_dir / "processes" / f"{key}.json").read_text())["keeper"]["pid"]
        return pid

    def kill_keeper(self, key: str) -> None:
        """Take the keeper of a process away without warning."""
        pid = self.keeper(key)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not living(pid), "the end of the keeper")

    def kill_all(self) -> None:
        """Kill everything and prove it."""
        self.call("signal", ids=None, scope="tree", signal="KILL")
        assert self.call("await_gone", ids=None, scope="tree", timeout=10)["survivors"] == []

    def end(self) -> None:
        """Kill what is left, whatever the test has done to records and helpers."""
        for pid in self.strangers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.helper.process.poll() is not None:
            self.helper = Helper()
        self.call("signal", ids=None, scope="tree", signal="KILL")
        self.helper.close()

    def stranger(self, pid: int) -> int:
        """Promise that a process that is nobody's child is killed at the end."""
        self.strangers.append(pid)
        return start_ticks(pid)


def process(key: str, **more: Any) -> Json:
    """Give the request for one process."""
    return {"id": f"demo/{key}", "key": key, "log": f"{key}.log", "hugepages": [], "secrets": {}, **more}
