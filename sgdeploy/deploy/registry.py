"""What this controller knows of its deployments, so that a name finds its hosts.

``<state>/<name>/`` holds ``plan.json`` (the last plan that was started from here) and ``known.json`` (the profile's
path, what was changed of it, and every host that may hold records of it). The truth is on the hosts, and a profile
alone is enough on another machine; only hosts that a deployment has left are known nowhere else. So a host stays in the
list until it is proven clean, whatever plans came since.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sgdeploy.errors import StateError
from sgdeploy.paths import state_dir
from sgdeploy.plan.model import Plan, PlanHost


@dataclass(frozen=True)
class Known:
    """A deployment as the registry remembers it.

    Attributes:
        name: of the deployment.
        plan: the plan that was started last.
        profile: absolute path of the profile at that time (it may be gone since).
        sets: the ``--set`` that it was started with.
        overlays: the ``--overlay`` likewise: absolute paths, and names of shipped ones.
        hosts: that may hold records of it, as they were reached when it was started there.
    """

    name: str
    plan: Plan
    profile: Path
    sets: tuple[str, ...] = ()
    overlays: tuple[str, ...] = ()
    hosts: tuple[PlanHost, ...] = ()

    @property
    def away(self) -> bool:
        """It was taken down from here since: no host holds anything of it."""
        return not self.hosts


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

    def remember(self, plan: Plan, profile: Path, *, sets: Sequence[str] = (), overlays: Sequence[str] = ()) -> None:
        """Write down a plan that is about to be started, and what it was made from; see ``Known``.

        Its hosts come to those that are known; none is forgotten for it.
        """
        try:
            before = self.recall(plan.name)
        except StateError:  # told to whoever names it; what can be read no more is no reason to know even less
            before = None
        hosts = {host.place: host for host in (*(before.hosts if before else ()), *plan.hosts)}
        self._keep(Known(plan.name, plan, profile.absolute(), tuple(sets), tuple(overlays), tuple(hosts.values())))

    def _keep(self, known: Known) -> None:
        folder = self.base / known.name
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = {
            "profile": str(known.profile),
            "sets": list(known.sets),
            "overlays": list(known.overlays),
            "hosts": [host.model_dump(mode="json") for host in known.hosts],
        }
        # The hosts first: whoever dies between the two knows too many, never too few.
        _write(folder / "known.json", json.dumps(made))
        _write(folder / "plan.json", json.dumps(known.plan.to_json()))

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
            return Known(name, plan, Path(made["profile"]), sets, overlays, _hosts(made, plan))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, OSError, AttributeError, RecursionError) as error:
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
        """Write down that a deployment was taken down everywhere; nothing where it is not known."""
        self._forget(name, None)

    def proven_clean(self, name: str, hosts: Iterable[PlanHost]) -> None:
        """Write down that some hosts hold nothing of a deployment any more; nothing where it is not known."""
        self._forget(name, {host.place for host in hosts})

    def _forget(self, name: str, places: Collection[tuple[object, ...]] | None) -> None:
        try:
            known = self.recall(name)
        except StateError:
            return
        if known is not None:
            left = tuple(host for host in known.hosts if places is not None and host.place not in places)
            self._keep(replace(known, hosts=left))

    def _away(self, name: str) -> bool:
        try:
            made = json.loads((self.base / name / "known.json").read_text())
            return bool(made.get("away")) or made.get("hosts") == []
        except (OSError, ValueError, AttributeError, RecursionError):
            return False


def _hosts(made: Mapping[str, Any], plan: Plan) -> tuple[PlanHost, ...]:
    """Read the hosts; a record from before they were kept means those of its plan."""
    if made.get("away"):
        return ()
    if "hosts" not in made:
        return plan.hosts
    return tuple(PlanHost.model_validate(host) for host in made["hosts"])


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, so that a reader never sees half of it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(temporary).replace(path)
