"""Small logs of deployments, written as tests need them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sgdeploy.diagnose.judge import diagnose
from sgdeploy.diagnose.model import Diagnosis, ProcessLog
from sgdeploy.health.states import Exit

LOGS = Path(__file__).parent / "logs"


def of_folder(name: str) -> Diagnosis:
    """Diagnose the logs of a recorded case."""
    logs = sorted((LOGS / name).glob("*.log"))
    assert logs
    return diagnose(
        ProcessLog(path.stem, list(enumerate(path.read_text().splitlines(), 1)), path=path.name) for path in logs
    )


def log(
    process: str,
    *lines: str,
    told: str = "",
    ended: Exit | None = None,
    alive: bool | None = None,
    role: str = "",
    unit: str = "",
    host: str = "",
) -> ProcessLog:
    """Make a log; ``told`` is what its argument line holds."""
    first = [f"[2026-01-01 10:00:00] server_args={{{told}}}"] if told else []
    numbered = list(enumerate([*first, *lines], 1))
    return ProcessLog(process, numbered, host=host, role=role, unit=unit, alive=alive, exit=ended)


def at(seconds: int, text: str, tag: str = "") -> str:
    """Write a line with its stamp, so many seconds after ten o'clock."""
    return f"[2026-01-01 10:{seconds // 60:02d}:{seconds % 60:02d}{' ' + tag if tag else ''}] {text}"


def loaded(begin: int = 1, tag: str = "TP0") -> list[str]:
    """Write the lines of a load that goes well."""
    return [
        at(begin, "Init parallel begin.", tag),
        at(begin + 1, "Init parallel ends.", tag),
        at(begin + 1, "Load weight begin. avail mem=19.53 GB", tag),
        at(begin + 2, "Load weight end. elapsed=0.06 s", tag),
        at(begin + 2, "KV Cache is allocated. #tokens: 8192", tag),
        at(begin + 3, "Memory pool end. avail mem=19.25 GB", tag),
    ]


def leader(*lines: str, begin: int = 1) -> list[str]:
    """Write the lines of a leader that serves, and more."""
    up = [
        at(begin + 4, "INFO:     Uvicorn running on http://10.0.0.1:30000"),
        at(begin + 5, "The server is fired up and ready to roll!"),
    ]
    return [*loaded(begin), *up, *lines]


def follower(*lines: str, begin: int = 1) -> list[str]:
    """Write the lines of a follower that has loaded, and more."""
    up = [at(begin + 3, "Dummy health check server started in background thread at 10.0.0.2:30000")]
    return [*loaded(begin, "TP1"), *up, *lines]


def rules_of(found: Diagnosis) -> Sequence[tuple[str, str]]:
    """Give rule and process of each cause, the first on top."""
    return [(each.rule, each.process) for each in found.findings]
