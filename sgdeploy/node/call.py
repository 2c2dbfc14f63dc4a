"""One request of the controller."""

from __future__ import annotations

import threading

from .errors import OpError
from .folder import Folder

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .errors import Json


class Call:
    """One request while it is being worked on."""

    def __init__(self, ident: Any, arguments: Json, emit: Callable[[Json], None]) -> None:
        """Keep the arguments, and how to send events."""
        self.ident = ident
        self.arguments = arguments
        self.cancelled = threading.Event()
        self._emit = emit
        window = arguments.get("window")
        self._room = None if window is None else threading.Semaphore(int(window))

    def __getitem__(self, name: str) -> Any:
        """Give an argument that must be there."""
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Give an argument that may be left out."""
        value = self.arguments.get(name)
        return default if value is None else value

    @property
    def folder(self) -> Folder:
        """The run folder that the request names."""
        return Folder(self["run_dir"])

    def event(self, value: Json) -> None:
        """Send one event of a stream; with a window, once there is room in it.

        Raises:
            OpError: ``cancelled`` while it waited for room.
        """
        while self._room is not None and not self._room.acquire(timeout=0.2):
            if self.cancelled.is_set():
                raise OpError("cancelled", "the operation was cancelled")
        self._emit({"id": self.ident, "event": value})

    def took(self) -> None:
        """Hear that the controller has taken one event: there is room for another."""
        if self._room is not None:
            self._room.release()
