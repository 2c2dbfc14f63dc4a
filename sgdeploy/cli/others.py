"""What a plan is compared with: a deployment by its name, a plan in a file, or another profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sgdeploy.cli.options import Changes
from sgdeploy.cli.targets import compiled, known, names_profile
from sgdeploy.errors import UsageError
from sgdeploy.plan.model import Plan

if TYPE_CHECKING:
    from sgdeploy.cli.desk import Desk

_PLAN_FILE = ".json"


def other_plan(desk: Desk, text: str) -> tuple[str, Plan]:
    """Find a plan, and what people call it.

    Raises:
        UsageError: a name that nobody knows, or a file that holds no plan.
        ProfileError: a profile with problems.
        StateError: a damaged record.
    """
    if text.endswith(_PLAN_FILE):
        return text, read_plan(Path(text))
    if names_profile(desk, text):
        return text, compiled(desk, text, Changes()).plan
    return f"{text} as it was started", known(desk, text).plan


def read_plan(path: Path) -> Plan:
    """Read what ``sgdeploy plan --json`` wrote.

    Raises:
        UsageError: it cannot be read, or is no plan of this version.
    """
    hint = "it should hold what `sgdeploy plan PROFILE --json` writes"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}:{error.colno}: no JSON: {error.msg}", hint=hint) from error
    except RecursionError as error:
        raise UsageError(f"{path} holds no plan: it is nested too deeply", hint=hint) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: byte 0x{error.object[error.start]:02x}", hint=hint) from error
    if not isinstance(data, dict):
        raise UsageError(f"{path} holds no plan", hint=hint)
    try:
        return Plan.from_json(data)
    except ValueError as error:
        reason = str(error).partition("\n")[2].partition("\n")[0] or str(error)
        raise UsageError(f"{path} holds no plan that this sgdeploy reads: {reason}", hint=hint) from error
