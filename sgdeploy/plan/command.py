"""Words of command lines that ranks, tokenizers and router have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgdeploy.plan.flags import split_secrets
from sgdeploy.plan.model import SecretConfig, SecretRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sgdeploy.engine.catalogue import Catalogue
    from sgdeploy.plan.layout import Context
    from sgdeploy.platforms.base import Launch
    from sgdeploy.profile.schema import FlagValue

REHEARSAL = ("python3", "-I", "-S", "engine.py")
"""Command of the simulated engine; its last word lies in the run folder."""

_CONFIG = "--config"


@dataclass(frozen=True)
class Command:
    """A command line.

    Attributes:
        argv: its words.
        in_run_dir: which of them are paths below the run folder.
        secret_config: the file with its secret flags, None where there are none.
    """

    argv: tuple[str, ...]
    in_run_dir: tuple[int, ...]
    secret_config: SecretConfig | None


def engine_start(context: Context, launch: Launch, rank: int | None) -> tuple[str, ...]:
    """Give the program that an engine process is: the profile's, else the platform's."""
    engine = context.profile.engine
    if engine.executable == "rehearsal":
        return REHEARSAL
    if engine.executable is not None:
        return (engine.executable,)
    return context.platform.executable(launch, rank, engine.python)


def model_words(context: Context, folder: str) -> list[str]:
    """Name the model, whose weights lie in a folder."""
    served = context.profile.model.served_name
    words = ["--model-path", folder]
    return words if served is None else [*words, "--served-model-name", served]


def flag_words(catalogue: Catalogue, flags: Mapping[str, FlagValue]) -> tuple[list[str], dict[str, SecretRef]]:
    """Part merged flags into words for the command line and secrets by flag name."""
    shown, secrets = split_secrets(flags)
    return catalogue.argv(shown), {name: SecretRef(secret=f"env:{secret.name}") for name, secret in secrets.items()}


def command(start: Sequence[str], words: Sequence[str], label: str, secrets: Mapping[str, SecretRef]) -> Command:
    """Put a command line together; secret flags go into a file of the run folder.

    Args:
        start: the program.
        words: its arguments.
        label: the process below the deployment, for the name of the file.
        secrets: flag name → secret.
    """
    argv = [*start, *words]
    below = [len(REHEARSAL) - 1] if tuple(start) == REHEARSAL else []
    if not secrets:
        return Command(tuple(argv), tuple(below), None)
    path = f"secrets/{label.replace('/', '-')}.yaml"
    argv += [_CONFIG, path]
    return Command(tuple(argv), (*below, len(argv) - 1), SecretConfig(path=path, values=secrets))


def activation(context: Context, launch: Launch) -> tuple[str, ...]:
    """Give what a process sources first: what the profile asks for, else the platform's."""
    asked = context.profile.engine.activate
    return context.platform.activate(launch) if asked is None else tuple(asked)
