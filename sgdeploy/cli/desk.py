"""What one run of the program has at hand: its words, its environment, its streams and the console made from them."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sgdeploy.cli.options import Output
    from sgdeploy.console.console import Console
    from sgdeploy.console.data import Mode
    from sgdeploy.console.stream import Secrets
    from sgdeploy.plan.model import Plan


class Desk:
    """Handed to every command; holds nothing of other runs.

    Attributes:
        argv: the words after the program's name.
        environ: environment variables.
        secret_names: variables that the plans of this run take secrets from; kept out of debug files.
    """

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], out: TextIO, err: TextIO) -> None:
        """Set the desk up; nothing is written yet."""
        self.argv = tuple(argv)
        self.environ = environ
        self.secret_names: frozenset[str] = frozenset()
        self._streams = (out, err)
        self._console: Console | None = None
        self._hidden: Secrets | None = None

    @classmethod
    def here(cls, argv: Sequence[str]) -> Desk:
        """Set the desk up for this process."""
        out, err = _there(sys.stdout), _there(sys.stderr)
        for stream in (out, err):
            if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a character gets its escape
                stream.reconfigure(errors="backslashreplace")
        return cls(argv, os.environ, out, err)

    @property
    def console(self) -> Console:
        """The console of this run; plain where no command has opened one yet."""
        return self._console or self._make("plain", quiet=False)

    def open(self, output: Output) -> Console:
        """Make the console that the operator asked for; a live table only on a terminal that can draw it."""
        on_terminal = self._streams[1].isatty() and self.environ.get("TERM", "dumb") not in {"dumb", "unknown"}
        mode: Mode = "live" if on_terminal and not output.plain else "plain"
        return self._make("json" if output.json else mode, quiet=output.quiet)

    @property
    def can_ask(self) -> bool:
        """Whether somebody sits at a terminal: what is asked is seen, and can be answered."""
        there = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        return there and self._streams[1].isatty()

    async def ask(self, question: str) -> bool:
        """Ask whoever sits there, and tell whether the answer is yes."""
        return await self.console.ask(question, sys.stdin.fileno())

    def _make(self, mode: Mode, *, quiet: bool) -> Console:
        from sgdeploy.console.console import Console

        out, err = self._streams
        self._console = Console(mode, out=out, err=err, quiet=quiet, secrets=self._secrets())
        return self._console

    def _secrets(self) -> Secrets:
        from sgdeploy.console.stream import Secrets

        self._hidden = self._hidden or Secrets()
        return self._hidden

    def secrets_of(self, plan: Plan) -> dict[str, str]:
        """Read the values of a plan's secrets, as far as they are set; from now on nobody gets to see them."""
        self.secret_names |= set(plan.secret_names)
        values = {name: self.environ[name] for name in plan.secret_names if name in self.environ}
        self._secrets().learn(values)
        return values

    def finish(self) -> None:
        """Flush; where nobody reads any more, keep the interpreter from complaining about it at its end."""
        for stream in self._streams:
            _flush(stream)


def _there(stream: TextIO | None) -> TextIO:
    """Give the stream, or the null device where it was closed before we began (``>&-``)."""
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w") if stream is None else stream


def _flush(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
