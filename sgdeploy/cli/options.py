"""Options that more than one command has, declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from sgdeploy.cli import complete


def seconds(text: str) -> float:
    """Read a duration of the command line: ``45m``, ``1h30m``, ``90``.

    Raises:
        typer.BadParameter: it is not one.
    """
    from sgdeploy.profile.scalars import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def moment(text: str) -> float:
    """Read a time of the command line, in seconds since the epoch: ``10m`` ago, ``22:15`` of today, ISO date and time.

    Raises:
        typer.BadParameter: it is none of these.
    """
    import time
    from datetime import datetime, timedelta

    from sgdeploy.profile.scalars import parse_duration

    try:
        return time.time() - parse_duration(text)
    except ValueError:
        pass
    now = datetime.now().astimezone()
    try:
        if "-" in text:
            return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone().timestamp()
        today = datetime.fromisoformat(f"{now.date()}T{text}").astimezone()
    except ValueError as error:
        raise typer.BadParameter(
            "must be a duration such as 10m, or a time such as 22:15 or 2026-11-29T22:15"
        ) from error
    return (today if today <= now else today - timedelta(days=1)).timestamp()


PROFILE_HELP = "Path of a profile, or shipped:PATH for one that ships with sgdeploy, such as shipped:demo/local."
AGAIN_HELP = (
    f"{PROFILE_HELP} Or the name of a deployment that was started from this machine: its profile again, with the "
    "--overlay and --set of then."
)
ONLY_HELP = (
    "A part of the deployment: a role, an instance such as prefill/long, or the router; globs too. May be repeated."
)
TARGET_HELP = "Name of a deployment known on this machine, or path of its profile."


@dataclass(frozen=True, kw_only=True)
class Json:
    """For commands that write data and draw nothing."""

    json: Annotated[bool, typer.Option("--json", help="Write JSON to stdout instead of text.")] = False

    @property
    def plain(self) -> bool:
        """Nothing is drawn."""
        return True

    @property
    def quiet(self) -> bool:
        """Everything is said."""
        return False


@dataclass(frozen=True, kw_only=True)
class Progress:
    """For commands that take their time on hosts."""

    json: Annotated[bool, typer.Option("--json", help="Write one JSON object per event to stdout, for programs.")] = (
        False
    )
    plain: Annotated[
        bool, typer.Option("--plain", help="Write a line per change, also on a terminal, instead of the live table.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only failures, warnings and the outcome.")] = False


Output = Json | Progress


@dataclass(frozen=True, kw_only=True)
class LockWait:
    """For commands that hold the lock of a deployment."""

    lock_wait: Annotated[
        float | None,
        typer.Option(
            "--lock-wait",
            parser=seconds,
            metavar="DURATION",
            show_default="not at all",
            help="How long to wait for another command that is at work on the deployment: 90, 10m.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Changes:
    """For commands that read profiles: changes for this one run."""

    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change one value of the profile: native.port=31000. VALUE is read as YAML. May be given often.",
        ),
    ] = None
    overlays: Annotated[
        list[str] | None,
        typer.Option(
            "--overlay",
            metavar="NAME|PATH",
            autocompletion=complete.overlays,
            help="Merge a file over the profile: a path, or a shipped one by name (rehearsal). May be given often.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PathChanges(Changes):
    """For commands that look at what was started: a name means that as it is, and only a profile can be changed."""

    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Only with a profile's path, not with a name: change one value of it. May be given often.",
        ),
    ] = None
    overlays: Annotated[
        list[str] | None,
        typer.Option(
            "--overlay",
            metavar="NAME|PATH",
            autocompletion=complete.overlays,
            help="Only with a profile's path, not with a name: merge a file over it. May be given often.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class OneTarget(PathChanges):
    """For commands about one deployment; where only one is known, it need not be named."""

    target: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|PROFILE", show_default="the only one known", help=TARGET_HELP, autocompletion=complete.targets
        ),
    ] = None
