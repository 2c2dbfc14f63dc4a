"""From what the operator typed to a plan: profiles by path, shipped ones, and deployments by name."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sgdeploy.deploy.registry import Known, Registry, default_base
from sgdeploy.errors import UsageError
from sgdeploy.paths import data_dir, is_file, is_there
from sgdeploy.profile.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sgdeploy.cli.desk import Desk
    from sgdeploy.cli.options import Changes
    from sgdeploy.plan.compile import Compiled
    from sgdeploy.plan.model import Plan
    from sgdeploy.problems import Problem

SHIPPED = "shipped:"
UNKNOWN = "a name is known where `up` was run; name the profile's path to ask the hosts themselves"
_LISTED = 20
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Target:
    """What a command is about.

    Attributes:
        plan: what is to run, or what was started last.
        profile: the file that it was made from.
        warnings: what the profile's reader found doubtful.
        sets: what ``--set`` has changed of it.
        overlays: what ``--overlay`` has laid over it: absolute paths, and names of shipped ones.
        recalled: the changes come, in part or all, from what was started last under this name.
    """

    plan: Plan
    profile: Path
    warnings: tuple[Problem, ...] = ()
    sets: tuple[str, ...] = ()
    overlays: tuple[str, ...] = ()
    recalled: bool = False


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
    names = sorted(each for each in known if folder or not each.startswith("overlays/"))
    raise unknown(f"no {what} named {name} ships with sgdeploy", bare, "there are", names)


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
    overlays = tuple(map(_from_anywhere, changes.overlays or ()))
    return Target(result.plan, profile_path(text), result.warnings, tuple(changes.sets or ()), overlays)


def _from_anywhere(overlay: str) -> str:
    """Name an overlay so that it is found from another working folder too."""
    if overlay.startswith(SHIPPED) or not looks_like_path(overlay):
        return overlay
    return str(Path(overlay).absolute())


def compile_named(desk: Desk, text: str, changes: Changes) -> Compiled:
    """Compile a profile.

    Raises:
        ProfileError: with all problems of all files.
        UsageError: it or an overlay cannot be found by its name.
    """
    from sgdeploy.plan.compile import compile_profile

    path = profile_path(text)
    if not looks_like_path(text) and not is_there(path):
        raise UsageError(f"there is no profile {text}", hint=_advice_for_profile(desk, text))
    overlays = [overlay_path(overlay) for overlay in changes.overlays or ()]
    result = compile_profile(path, changes.sets or (), overlays)
    desk.secrets_of(result.plan)
    return result


def _advice_for_profile(desk: Desk, text: str) -> str:
    """Say what a word without a slash or an ending may have meant where a profile belongs."""
    if text in registry(desk).names():
        return f"{text} is the name of a deployment; its profile is {_called(known(desk, text).profile)}"
    shipped = [_called(path) for path in data_dir("profiles").rglob("*.yaml") if "overlays" not in path.parts]
    beside = [path.name for ending in _SUFFIXES for path in Path().glob(f"*{ending}")]
    by_word = {Path(name).stem: name for name in (*sorted(shipped), *beside)}
    guess = by_word.get(text) or by_word.get(did_you_mean(text, by_word) or "")
    ways = f"give the path of a file that ends in .yaml, or {SHIPPED}PATH for one that ships with sgdeploy"
    return f"did you mean {guess}?" if guess else ways


def _called(profile: Path) -> str:
    """Name a profile the way a command line does."""
    base = data_dir("profiles")
    if profile.is_relative_to(base):
        return SHIPPED + profile.relative_to(base).with_suffix("").as_posix()
    return str(profile)


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
    names = registry(desk).live()
    guess = did_you_mean(name, registry(desk).names())
    if guess:
        return f"did you mean {guess}?"
    known_names = f"known: {', '.join(names)}; " if names else ""
    return f"{known_names}{UNKNOWN}"


def names_profile(desk: Desk, text: str) -> bool:
    """Tell whether a word means a profile: it looks like a path, or is a file and no deployment's name."""
    return looks_like_path(text) or (text not in registry(desk).names() and is_file(Path(text)))


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
    return _as_started(known(desk, text))


def one_or_the_only(desk: Desk, text: str | None, changes: Changes) -> Target:
    """Find what runs, or would run; the only deployment known where none is named.

    Raises:
        UsageError, ProfileError, StateError: as in ``resolve`` and ``the_only_one``.
    """
    if text is not None:
        return resolve(desk, text, changes)
    return _as_started(the_only_one(desk))


def _as_started(found: Known) -> Target:
    return Target(found.plan, found.profile, sets=found.sets, overlays=found.overlays)


def profile_of(desk: Desk, text: str, changes: Changes) -> Target:
    """Compile what `up` is about: a profile by its path, or the profile of a deployment that is known by name.

    A name means the profile with the overlays and ``--set`` that it was started with: without them a rehearsal would
    become the real engine. New ones come on top, and a new value of a key takes the place of the old one.

    Raises:
        UsageError, ProfileError, StateError: as in ``resolve``.
    """
    from sgdeploy.cli.options import Changes

    if names_profile(desk, text):
        return compiled(desk, text, changes)
    found = known(desk, text)
    anew = {_key(given) for given in changes.sets or ()}
    sets = [*(kept for kept in found.sets if _key(kept) not in anew), *(changes.sets or ())]
    overlays = list(dict.fromkeys((*found.overlays, *map(_from_anywhere, changes.overlays or ()))))
    made = compiled(desk, str(found.profile), Changes(sets=sets, overlays=overlays))
    return replace(made, recalled=bool(found.sets or found.overlays))


def _key(given: str) -> str:
    return given.partition("=")[0].strip()


def as_started_last(desk: Desk, target: Target) -> str:
    """Say which changes a target that was named has from its last start."""
    from sgdeploy.cli.redact import redact_words

    pairs = [*(("--overlay", overlay) for overlay in target.overlays), *(("--set", given) for given in target.sets)]
    words = redact_words([word for pair in pairs for word in pair], desk.environ, desk.secret_names)
    return f"{target.plan.name} is meant as it was started last: {target.profile} {shlex.join(words)}"


def none_is_up(desk: Desk) -> str:
    """Say that no deployment is known here that was not taken down."""
    away = ", ".join(registry(desk).names())
    if not away:
        return f"no deployment is known on this machine: {UNKNOWN}"
    return f"all that was started from this machine was taken down again: {away}; name one to ask its hosts"


def all_known(desk: Desk) -> list[Known]:
    """Give every deployment that was started from this machine and not taken down since.

    Raises:
        StateError: a damaged record.
    """
    return [known(desk, name) for name in registry(desk).live()]


def the_only_one(desk: Desk) -> Known:
    """Give the deployment that is meant when none is named: one that was taken down only where no other is known.

    Raises:
        UsageError: there is none, or more than one.
    """
    names: Sequence[str] = registry(desk).live() or registry(desk).names()
    if len(names) == 1:
        return known(desk, names[0])
    if not names:
        raise UsageError("no deployment is known on this machine", hint=UNKNOWN)
    raise UsageError("more than one deployment is known; which one?", hint=f"known: {', '.join(names)}")
