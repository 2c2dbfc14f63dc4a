"""The helper's line to a keeper that it starts: the program, the commands, the answers."""

from __future__ import annotations

import json
import os
import select
import sys
import time

from .boot import BOOTSTRAP, KEEPER, PYTHON_FLAGS
from .errors import OpError, os_fault
from .files import CHUNK
from .processes import clean_environment, lives

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .errors import Json
    from .folder import Folder


class KeeperLine:
    """The helper's end of the line to a keeper that it has started."""

    ANSWER = 15.0
    """Seconds within which a keeper must answer."""

    def __init__(self, folder: Folder, parcel: bytes) -> None:
        """Start a keeper and wait until it is on record."""
        import subprocess

        words = [sys.executable or "python3", *PYTHON_FLAGS, "-c", BOOTSTRAP]
        try:
            self._process = subprocess.Popen(
                [*words, KEEPER, str(folder.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd=str(folder.path),
                env=clean_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise os_fault(error, words[0], "start") from error
        self._send(parcel)
        self.identity: Json = self._answer()["keeper"]
        self._process.wait(self.ANSWER)

    def start(self, job: Json) -> Json:
        """Have one process started; give its record.

        Raises:
            OpError: what the keeper found, or ``start-failed`` when it does not answer.
        """
        self._send(json.dumps(job).encode() + b"\n")
        record: Json = self._answer()["record"]
        return record

    def release(self) -> None:
        """Give no more commands."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _send(self, data: bytes) -> None:
        if self._process.stdin is None:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._process.stdin.fileno(), view) :]
        except OSError as error:
            raise OpError("start-failed", f"the keeper ended: {error}") from error

    def _answer(self) -> Json:
        answer = b""
        deadline = time.monotonic() + self.ANSWER
        output = self._process.stdout
        while output is not None and not answer.endswith(b"\n"):
            if not select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise OpError("start-failed", f"the keeper did not answer within {self.ANSWER:.0f} s")
            data = os.read(output.fileno(), CHUNK)
            if not data:
                raise OpError("start-failed", "the keeper ended without an answer")
            answer += data
        value: Json = json.loads(answer)
        if "error" in value:
            error = value["error"]
            raise OpError(error["code"], error["message"], error["hint"], **error["details"])
        return value


def keeper_gone(keeper: Json) -> bool:
    """Whether a keeper has ended."""
    return not lives(keeper["pid"], keeper["start"])
