"""The one place where the end of a command becomes an exit code and, where it failed, a message."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sgdeploy.errors import SgdeployError

if TYPE_CHECKING:
    from types import TracebackType

    from sgdeploy.cli.desk import Desk

OUR_FAULT = 70
INTERRUPTED = 130


class Verdict:
    """Judges how the body of its ``with`` ended; nothing escapes from it.

    Attributes:
        code: exit code; 0 until the body has ended.
    """

    def __init__(self, desk: Desk) -> None:
        """Judge for one run of the program."""
        self._desk = desk
        self.code = 0

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Turn whatever was raised into a code and say what the operator needs to know."""
        if error is not None:
            self.code = self._judge(error)
        return True

    def _judge(self, error: BaseException) -> int:
        if isinstance(error, SystemExit):  # typer has said what was wrong with the words
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error, SgdeployError):
            self._desk.console.error(error)
            return error.exit_code
        if isinstance(error, KeyboardInterrupt):
            self._desk.console.close()
            self._desk.console.say("interrupted")
            return INTERRUPTED
        return self._our_fault(error)

    def _our_fault(self, error: BaseException) -> int:
        from sgdeploy.cli.debug import write_report
        from sgdeploy.cli.redact import redact

        path = write_report(error, self._desk.argv, self._desk.environ, self._desk.secret_names)
        advice = (
            f"{path} holds versions, the command and the traceback, without secrets; read it, then attach it to a new "
            "issue of the sgdeploy project"
        )
        if os.fspath(path) == os.devnull:
            advice = "report the message and the command to the sgdeploy project; no debug file could be written"
        message = redact(f"{type(error).__name__}: {error}", self._desk.environ, self._desk.secret_names)
        self._desk.console.fault_of_ours(message, advice)
        return OUR_FAULT
