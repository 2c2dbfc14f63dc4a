"""Failures on demand: what ``SGDEPLOY_REHEARSE_FAIL`` asks for, and when it strikes."""

from __future__ import annotations

from .settings import UsageError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from .settings import Settings


PHASE_OF = {  # where a fault strikes that names no phase
    "unknown-flag": "start",
    "401": "start",
    "no-tokens": "start",
    "port-taken": "start",
    "never-join": "init",
    "rendezvous-taken": "init",
    "slow-load": "load",
    "oom": "load",
}
PHASES = ("start", "init", "load", "warmup", "serve")
MODES = (*PHASE_OF, "die", "exit", "crash", "hang", "wedge", "escape", "green-but-dead")
MAIN_FAULTS = ("die", "exit", "401", "no-tokens", "port-taken", "escape", "green-but-dead")


class CrashError(Exception):
    """An exception inside a scheduler; the text is the last line of its traceback."""


class Faults:
    """The failures this process was asked for: ``mode[=value][@phase][:nXrY]``, separated by commas or spaces."""

    def __init__(self, text: str, settings: Settings) -> None:
        """Keep those whose selector fits this node; a rank part is compared per scheduler.

        Raises:
            UsageError: a mode, phase or selector that nobody knows; else a test of a failure would test nothing.
        """
        self.items: list[tuple[str, str, str, int | None]] = []
        for item in text.replace(",", " ").split():
            head, _, selector = item.partition(":")
            head, _, phase = head.partition("@")
            mode, _, value = head.partition("=")
            if mode.startswith("exit"):
                mode, value = "exit", mode[4:] or value or "1"
            phase = phase or PHASE_OF.get(mode, "serve")
            node, _, rank = selector.lstrip("n").partition("r")
            if mode not in MODES or phase not in PHASES or not (node + rank + "0").isdigit():
                raise UsageError("SGDEPLOY_REHEARSE_FAIL: cannot read " + item)
            wrong_node = node and int(node) != settings.node_rank
            if wrong_node or (settings.rank_launch and rank and int(rank) != settings.rank_in_node):
                continue
            self.items.append((mode, value, phase, int(rank) if rank else None))

    def due(self, phase: str, rank_in_node: int | None = None) -> list[tuple[str, str]]:
        """Give (mode, value) of the faults that strike in a phase, for one scheduler or (None) for main."""
        return [
            (m, v) for m, v, p, r in self.items if p == phase and (rank_in_node is None or r in {None, rank_in_node})
        ]
