"""From what the operator typed to a plan: profiles by path, shipped ones, and deployments by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sgdeploy.deploy.registry import Known, Registry, default_base
from sgdeploy.errors import UsageError
from sgdeploy.paths import data_dir
from sgdeploy.profile.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sgdeploy.cli.desk import Desk
    from sgdeploy.cli.options import Changes
    from sgdeploy.plan.compile import Compiled
    from sgdeploy.plan.model import Plan
    from sgdeploy.problems import Problem

SHIPPED = "shipped:"
UNKNOWN = "a name is known from `up` to `down`; name the profile's path to ask the hosts themselves"
_LISTED = 20
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Target:
    """What a command is about.

    Attributes:
        plan: what is to run, or what was started last.
        profile: the file that it was made from.
        warnings: what the profile's reader found doubtful.
    """

    plan: Plan
    profile: Path
    warnings: tuple[Problem, ...] = ()


def registry(desk: Desk) -> Registry:
    """Open the registry of this machine."""
    return Registry(default_base(desk.environ))


def looks_like_path(text: str) -> bool:
    """Tell a profile's path from a deployment's name, which has no slash, colon or dot."""
    return text.startswith(SHIPPED) or "/" in text or text.endswith(_SUFFIXES)


def profile_path(text: str) -> Path:
    """Find a profile.

    Raises:
        UsageError: no profile of that name ships with sgdeploy.
    """
    if not text.startswith(SHIPPED):
        return Path(text)
    return _shipped(text.removeprefix(SHIPPED), "", "profile")


def overlay_path(text: str) -> Path:
    """Find an overlay: a path, or one that ships with sgdeploy by its bare name.

    Raises:
        UsageError: no overlay of that name ships with sgdeploy.
    """
    if looks_like_path(text):
        return profile_path(text)
    return _shipped(text, "overlays", "overlay")


def _shipped(name: str, folder: str, what: str) -> Path:
    base = data_dir("profiles") / folder
    bare = name[: -len(Path(name).suffix)] if name.endswith(_SUFFIXES) else name
    known = {path.relative_to(base).with_suffix("").as_posix(): path for path in base.rglob("*.yaml")}
    if bare in known:
        return known[bare]
    raise unknown(f"no {what} named {name} ships with sgdeploy", bare, "there are", sorted(known))


def unknown(message: str, word: str, what: str, names: Sequence[str]) -> UsageError:
    """Make the error about a word that is none of some names: with the one that is probably meant, or with all."""
    guess = did_you_mean(word, names)
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    return UsageError(message, hint=f"did you mean {guess}?" if guess else f"{what}: {listed}" if names else None)


def compiled(desk: Desk, text: str, changes: Changes) -> Target:
    """Compile a profile to what a command is about.

    Raises:
        ProfileError, UsageError: as in ``compile_named``.
    """
    result = compile_named(desk, text, changes)
    return Target(result.plan, profile_path(text), result.warnings)


def compile_named(desk: Desk, text: str, changes: Changes) -> Compiled:
    """Compile a profile.

    Raises:
        ProfileError: with all problems of all files.
        UsageError: it or an overlay cannot be found by its name.
    """
    from sgdeploy.plan.compile import compile_profile

    path = profile_path(text)
    overlays = [overlay_path(overlay) for overlay in changes.overlays or ()]
    result = compile_profile(path, changes.sets or (), overlays)
    desk.secrets_of(result.plan)
    return result


def known(desk: Desk, name: str) -> Known:
    """Look a name up.

    Raises:
        UsageError: nothing of that name is known on this machine.
        StateError: its record is damaged.
    """
    found = registry(desk).recall(name)
    if found is None:
        raise UsageError(f"no deployment named {name} is known on this machine", hint=_advice(desk, name))
    desk.secrets_of(found.plan)
    return found


def _advice(desk: Desk, name: str) -> str:
    names = registry(desk).names()
    guess = did_you_mean(name, names)
    if guess:
        return f"did you mean {guess}?"
    known_names = f"known: {', '.join(names)}; " if names else ""
    return f"{known_names}{UNKNOWN}"


def names_profile(desk: Desk, text: str) -> bool:
    """Tell whether a word means a profile: it looks like a path, or is a file and no deployment's name."""
    return looks_like_path(text) or (text not in registry(desk).names() and Path(text).is_file())


def resolve(desk: Desk, text: str, changes: Changes) -> Target:
    """Find what runs, or would run: a deployment by its name, or a profile compiled by its path.

    Raises:
        UsageError: a name that nobody knows, or changes to what was started already.
        ProfileError: a profile with problems.
        StateError: a damaged record.
    """
    if names_profile(desk, text):
        return compiled(desk, text, changes)
    if changes.sets or changes.overlays:
        raise UsageError("--set and --overlay change a profile; give its path instead of a name")
    found = known(desk, text)
    return Target(found.plan, found.profile)


def one_or_the_only(desk: Desk, text: str | None, changes: Changes) -> Target:
    """Find what runs, or would run; the only deployment known where none is named.

    Raises:
        UsageError, ProfileError, StateError: as in ``resolve`` and ``the_only_one``.
    """
    if text is not None:
        return resolve(desk, text, changes)
    only = the_only_one(desk)
    return Target(only.plan, only.profile)


def profile_of(desk: Desk, text: str, changes: Changes) -> Target:
    """Compile what `up` is about: a profile by its path, or the profile of a deployment that is known by name.

    Raises:
        UsageError, ProfileError, StateError: as in ``resolve``.
    """
    if names_profile(desk, text):
        return compiled(desk, text, changes)
    return compiled(desk, str(known(desk, text).profile), changes)


def all_known(desk: Desk) -> list[Known]:
    """Give every deployment known on this machine.

    Raises:
        StateError: a damaged record.
    """
    return [known(desk, name) for name in registry(desk).names()]


def the_only_one(desk: Desk) -> Known:
    """Give the deployment that is meant when none is named.

    Raises:
        UsageError: there is none, or more than one.
    """
    names: Sequence[str] = registry(desk).names()
    if len(names) == 1:
        return known(desk, names[0])
    if not names:
        raise UsageError("no deployment is known on this machine", hint=UNKNOWN)
    raise UsageError("more than one deployment is known; which one?", hint=f"known: {', '.join(names)}")
