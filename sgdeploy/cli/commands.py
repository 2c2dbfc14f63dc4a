"""The table of commands: what exists, in which module, and its line in ``sgdeploy --help``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        line: what it does, one line.
        name: as typed, two words for a command below another. Its module is ``sgdeploy.cli.<name>`` with underscores,
            imported only when the command is used. The module holds a function of that name,
            ``(desk, options) -> None``, whose docstring is the help text; a frozen dataclass ``Options`` whose fields
            are the command's arguments and options; and ``EXAMPLES``.
        below: commands that go by this one's name and one of their own. A command that has some takes options only.
    """

    name: str
    line: str
    below: tuple[Command, ...] = ()

    @property
    def word(self) -> str:
        """The last word of its name."""
        return self.name.rpartition(" ")[2]

    def load(self) -> Loaded:
        """Import the command's module."""
        name = self.name.replace("-", "_").replace(" ", "_")
        module = import_module(f"sgdeploy.cli.{name}")
        return Loaded(getattr(module, name), module.Options, module.EXAMPLES)


@dataclass(frozen=True)
class Loaded:
    """A command whose module has been imported."""

    function: Callable[[Any, Any], None]
    options: type[Any]
    examples: str


COMMANDS = (
    Command("up", "Bring a deployment up and wait until every rank is ready."),
    Command("wait", "Go on waiting until what runs is ready."),
    Command("diff", "Show what `up` would make of what runs."),
    Command("status", "Tell how deployments are, by asking their hosts."),
    Command("diagnose", "Read logs and name the first cause over all ranks."),
    Command("logs", "Show what all ranks have written, in the order of time."),
    Command("restart", "Restart instances or the router of what runs."),
    Command("watch", "Watch what runs, and restart what fails."),
    Command("history", "Tell who did what to a deployment."),
    Command("rollback", "Go back to the last plan that was ready."),
    Command(
        "lock",
        "Tell who is at work on deployments.",
        (
            Command("lock status", "Tell who holds a lock, and whether that command lives."),
            Command("lock release", "Free a lock whose holder is gone."),
        ),
    ),
    Command("down", "Take a deployment down and prove that nothing is left."),
    Command("plan", "Show what would run where; write it as scripts."),
    Command("validate", "Check profiles without touching any host."),
    Command(
        "split-weights",
        "Split a checkpoint into the files that each rank loads.",
        (
            Command("split-weights verify", "Hold a split against its manifest."),
            Command("split-weights dump-manifest", "List the parameters that an installed engine builds."),
        ),
    ),
    Command("ask", "Send one completion through the front door."),
    Command("demo", "Bring a simulated cluster up and down on this machine."),
    Command("schema", "Print the JSON Schema of profiles, for editors."),
    Command("version", "Print versions, for bug reports."),
)
