"""What this controller knows of its deployments, so that a name finds its hosts.

``<state>/<name>/`` holds ``plan.json`` (the last plan that was started from here) and ``known.json`` (the profile's
path, what was changed of it, whether it was taken down since). It is a convenience only: the truth is on the hosts, and
a profile alone is enough on another machine.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sgdeploy.errors import StateError
from sgdeploy.paths import state_dir
from sgdeploy.plan.model import Plan


@dataclass(frozen=True)
class Known:
    """A deployment as the registry remembers it.

    Attributes:
        name: of the deployment.
        plan: the plan that was started last.
        profile: absolute path of the profile at that time (it may be gone since).
        sets: the ``--set`` that it was started with.
        overlays: the ``--overlay`` likewise: absolute paths, and names of shipped ones.
        away: it was taken down from here since.
    """

    name: str
    plan: Plan
    profile: Path
    sets: tuple[str, ...] = ()
    overlays: tuple[str, ...] = ()
    away: bool = False


def default_base(environ: Mapping[str, str]) -> Path:
    """Give the registry's folder: ``.controller`` below ``paths.state_dir``.

    The dot keeps it apart from the run folders of local hosts, which are named after deployments.
    """
    return state_dir(environ) / ".controller"


class Registry:
    """The deployments known on this machine, one folder each."""

    def __init__(self, base: Path) -> None:
        """Keep the folder; it is made on the first write."""
        self.base = base

    def remember(
        self, plan: Plan, profile: Path, *, sets: Sequence[str] = (), overlays: Sequence[str] = (), away: bool = False
    ) -> None:
        """Write down a plan that is about to be started, and what it was made from; see ``Known``."""
        folder = self.base / plan.name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(folder / "plan.json", json.dumps(plan.to_json()))
        made = {"profile": str(profile.absolute()), "sets": list(sets), "overlays": list(overlays), "away": away}
        _write(folder / "known.json", json.dumps(made))

    def recall(self, name: str) -> Known | None:
        """Give what is known under a name, or None.

        Raises:
            StateError: the record is damaged or of another version.
        """
        folder = self.base / name
        try:
            plan = Plan.from_json(json.loads((folder / "plan.json").read_text()))
            made = json.loads((folder / "known.json").read_text())
            sets, overlays = tuple(made.get("sets", ())), tuple(made.get("overlays", ()))
            return Known(name, plan, Path(made["profile"]), sets, overlays, away=bool(made.get("away")))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, OSError) as error:
            reason = str(error).partition("\n")[0]
            raise StateError(
                f"{folder}: the record of deployment {name} cannot be read: {reason}",
                hint=f"name the profile's path instead of {name}, or remove the folder",
            ) from error

    def names(self) -> tuple[str, ...]:
        """List all known deployments, sorted."""
        if not self.base.is_dir():
            return ()
        return tuple(sorted(entry.name for entry in self.base.iterdir() if (entry / "plan.json").is_file()))

    def live(self) -> tuple[str, ...]:
        """List the deployments that were not taken down since, and those whose record is damaged; sorted."""
        return tuple(name for name in self.names() if not self._away(name))

    def put_away(self, name: str) -> None:
        """Write down that a deployment was taken down; nothing where it is not known."""
        try:
            known = self.recall(name)
        except StateError:
            return
        if known is not None:
            self.remember(known.plan, known.profile, sets=known.sets, overlays=known.overlays, away=True)

    def _away(self, name: str) -> bool:
        try:
            return bool(json.loads((self.base / name / "known.json").read_text()).get("away"))
        except (OSError, ValueError, AttributeError):
            return False


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, so that a reader never sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(temporary).replace(path)
