"""What the shell offers at the Tab key: deployments, profiles, hosts, selectors, things that can be explained.

An offer never complains: where something is wrong there is none, and the command itself says why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

if TYPE_CHECKING:
    from sgdeploy.plan.compile import Compiled
    from sgdeploy.plan.model import Plan

Offers: TypeAlias = "list[tuple[str, str]]"
"""Words, each with what it means; shells that can show the meaning do."""

SHELL = "_SGDEPLOY_COMPLETE"
"""Set by the shell while it completes a line: ``complete_bash``, ``complete_zsh``, ``complete_fish``."""

_SPLIT_OFF = "_SGDEPLOY_COMPLETE_SPLIT_OFF"
"""What bash has split off the word and keeps in front of what is offered: ``shipped:``, or nothing."""

_SHIPPED = "shipped:"
_YAML = (".yaml", ".yml")


def words_before(environ: Mapping[str, str]) -> list[str]:
    """Give the words of the line that is being completed, without the program and the current word."""
    if "COMP_WORDS" in environ:
        return environ["COMP_WORDS"].split("\n")[1 : int(environ["COMP_CWORD"])]
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()
    return words[1:] if line.endswith(" ") else words[1:-1]


def command_typed(environ: Mapping[str, str]) -> str | None:
    """Give the command on the line that is being completed, None where there is none yet."""
    return next((word for word in words_before(environ) if not word.startswith("-")), None)


def join_words_of_bash(environ: MutableMapping[str, str]) -> None:
    """Undo that bash parts words at ``:`` and ``=``, as in ``shipped:demo/local`` and ``--host=n01``.

    The words and the number of the current one are set anew. What is offered goes behind the last ``:`` or ``=``, so
    ``shipped:`` is taken off the current word and remembered.
    """
    words = environ["COMP_WORDS"].split("\n")
    current = int(environ["COMP_CWORD"])
    joined: list[str] = []
    open_end = False
    for word in [*words, *[""] * (current + 1 - len(words))][: current + 1]:
        separator = word in {":", "="}
        if joined and (separator or open_end):
            joined[-1] += word
        else:
            joined.append(word)
        open_end = separator
    head, split_off, rest = joined[-1].rpartition(_SHIPPED)
    joined[-1] = head + rest
    environ.update({_SPLIT_OFF: split_off, "COMP_WORDS": "\n".join(joined), "COMP_CWORD": str(len(joined) - 1)})


def deployments() -> Offers:
    """Offer the deployments that are known on this machine."""
    return _quietly(_deployments)


def profiles(incomplete: str) -> Offers:
    """Offer profiles: those that ship with sgdeploy, files here, and folders on the way to others."""
    return _quietly(lambda: [*_shipped_profiles(), *_files(incomplete, _YAML)])


def targets(incomplete: str) -> Offers:
    """Offer what a command about a deployment takes: names and profiles."""
    return [*deployments(), *profiles(incomplete)]


def overlays(incomplete: str) -> Offers:
    """Offer overlays: those that ship, by their bare names, and files."""
    return _quietly(lambda: [*_shipped("overlays", "shipped overlay"), *_files(incomplete, _YAML)])


def others(incomplete: str) -> Offers:
    """Offer what a plan can be compared with: names, profiles, plans in files."""
    return _quietly(lambda: [*_deployments(), *_shipped_profiles(), *_files(incomplete, (*_YAML, ".json"))])


def hosts(ctx: typer.Context) -> Offers:
    """Offer the hosts of the profile or deployment that was named."""
    return _quietly(lambda: [(host.host, host.address) for host in _plan(ctx).hosts])


def parts(ctx: typer.Context) -> Offers:
    """Offer selectors: roles, instances, the router, hosts."""
    return _quietly(lambda: _parts(_plan(ctx)))


def units(ctx: typer.Context) -> Offers:
    """Offer instances, tokenizers and the router."""
    return _quietly(lambda: _units(_plan(ctx)))


def keys(ctx: typer.Context) -> Offers:
    """Offer what can be explained: flags, variables, keys of the profile, fields of processes."""
    return _quietly(lambda: _keys(_compiled(ctx)))


def _quietly(offers: Callable[[], Offers]) -> Offers:
    from sgdeploy.errors import SgdeployError

    try:
        return offers()
    except (SgdeployError, OSError, ValueError, LookupError):
        return []


def _deployments() -> Offers:
    from sgdeploy.deploy.registry import Registry, default_base

    if os.environ.get(_SPLIT_OFF):
        return []
    return [(name, "deployment") for name in Registry(default_base(os.environ)).live()]


def _shipped_profiles() -> Offers:
    prefix = _SHIPPED.removeprefix(os.environ.get(_SPLIT_OFF, ""))
    return [
        (prefix + name, about) for name, about in _shipped("", "shipped profile") if not name.startswith("overlays/")
    ]


def _shipped(folder: str, about: str) -> Offers:
    from sgdeploy.paths import data_dir

    base = data_dir("profiles") / folder
    return [(path.relative_to(base).with_suffix("").as_posix(), about) for path in sorted(base.rglob("*.yaml"))]


def _files(incomplete: str, endings: tuple[str, ...]) -> Offers:
    """Offer files with some endings, and folders. Bash offers paths itself where we have none, and does it better."""
    if os.environ.get(_SPLIT_OFF) or ("/" in incomplete and os.environ.get(SHELL) == "complete_bash"):
        return []
    folder, _, start = incomplete.rpartition("/")
    shown = incomplete[: len(incomplete) - len(start)]
    found = []
    for entry in sorted(Path(f"{folder}/" if shown else ".").expanduser().iterdir()):
        if entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith(".")):
            if entry.is_dir() and os.environ.get(SHELL) != "complete_bash":
                found.append((f"{shown}{entry.name}/", "folder"))
            elif entry.name.endswith(endings):
                found.append((f"{shown}{entry.name}", "file"))
    return found


def _values(ctx: typer.Context) -> dict[str, Any]:
    """Read the words before the current one; an option at their end that waits for its value is left out."""
    words = words_before(os.environ)
    words = words[words.index(str(ctx.info_name)) + 1 :]
    while words and words[-1].startswith("-"):
        words.pop()
    with ctx.command.make_context(ctx.info_name, words, resilient_parsing=True) as read:
        return dict(read.params)


def _compile(text: str, values: Mapping[str, Any]) -> Compiled:
    from sgdeploy.cli.targets import overlay_path, profile_path
    from sgdeploy.plan.compile import compile_profile

    laid_over = [overlay_path(name) for name in values.get("overlays") or ()]
    return compile_profile(profile_path(text), values.get("sets") or (), laid_over)


def _compiled(ctx: typer.Context) -> Compiled:
    values = _values(ctx)
    return _compile(str(values["profile"]), values)


def _plan(ctx: typer.Context) -> Plan:
    """Find the plan that the line is about: of its profile, of the deployment it names, or of the only one known."""
    from sgdeploy.cli.targets import looks_like_path
    from sgdeploy.deploy.registry import Registry, default_base

    values = _values(ctx)
    registry = Registry(default_base(os.environ))
    named = values.get("profile") or values.get("target")
    (text,) = [str(named)] if named else registry.live()
    known = None if looks_like_path(text) else registry.recall(text)
    return known.plan if known is not None else _compile(text, values).plan


def _parts(plan: Plan) -> Offers:
    hosts = [(host.host, "host") for host in plan.hosts]
    roles = [(process.role, "role") for process in plan.processes]
    return list(dict([*hosts, *roles, *_units(plan)]).items())


def _units(plan: Plan) -> Offers:
    return [(unit, "unit") for stage in plan.stages for unit in stage]


def _keys(compiled: Compiled) -> Offers:
    from sgdeploy.plan.explain.door import candidates
    from sgdeploy.plan.explain.inquiry import Inquiry
    from sgdeploy.plan.part import Part

    return [(name, "") for name in sorted(candidates(Inquiry(compiled, Part())))]
