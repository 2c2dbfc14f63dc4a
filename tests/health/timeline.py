"""Time lines: what the nodes said and when → what the health must say about it.

A file holds:

* ``about``: a sentence; ``processes``: name → milestones, http, alive (host ``h-<name>``); ``limits``, if they matter;
* ``steps``, each with ``at`` (seconds), one input (``started``: names; ``see``: name → row of a watch event; ``lose``:
  name → reason; ``tick``), and what must come of it: ``told`` (transitions; none unless given) and ``verdict``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from sgdeploy.health.deployment import DeploymentHealth
from sgdeploy.health.states import Observation, Transition
from sgdeploy.health.verdict import Failed, Ready, TimedOut, Verdict
from sgdeploy.plan.model import FrontDoor, Health, Limits, Plan, PlanHost, Process

FOLDER = Path(__file__).parent / "timelines"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def read(name: str) -> dict[str, Any]:
    """Read a time line."""
    data: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return data


def plan_of(processes: dict[str, dict[str, Any]], limits: Limits) -> Plan:
    """Give a plan with one process per host."""
    return Plan(
        name="demo",
        topology="native",
        platform="cpu",
        engine_version="0.5.23",
        stages=(("native",),),
        hosts=tuple(PlanHost(host=f"h-{name}", address=name, ssh=name, run_dir=f"/run/{name}") for name in processes),
        processes=tuple(
            Process(
                id=name,
                role="native",
                host=f"h-{name}",
                address=name,
                argv=("engine",),
                log=f"{name}.log",
                health=Health(**check),
            )
            for name, check in processes.items()
        ),
        front_door=FrontDoor(host="h", address="a", port=30000, model="m"),
        limits=limits,
    )


def play(data: dict[str, Any]) -> list[tuple[dict[str, Any], list[str], str]]:
    """Play a time line: each step with the transitions and the verdict that came of it."""
    limits = Limits(**{"timeout": 2700.0, "stall": 600.0, "grace": 20.0, **data.get("limits", {})})
    health = DeploymentHealth.begin(plan_of(data["processes"], limits), 0.0)
    played = []
    for step in data["steps"]:
        health, told = _input(health, step)
        played.append((step, [_line(it) for it in told], _words(health.verdict(float(step["at"]), limits))))
    return played


def _input(health: DeploymentHealth, step: dict[str, Any]) -> tuple[DeploymentHealth, list[Transition]]:
    now = float(step["at"])
    if "started" in step:
        return health.started(step["started"], now)
    if "lose" in step:
        ((name, reason),) = step["lose"].items()
        return health.lose(f"h-{name}", reason, now)
    if "see" in step:
        rows = [Observation.from_json({"process": name, "alive": True, **row}) for name, row in step["see"].items()]
        return health.observe(rows, now)
    return health.tick(now)


def _line(it: Transition) -> str:
    reason = f" ({it.reason})" if it.reason else ""
    return f"{it.process} {it.before}>{it.after}: {it.phase}{reason}"


def _words(verdict: Verdict) -> str:
    if isinstance(verdict, Ready):
        return "ready"
    if isinstance(verdict, Failed):
        return f"failed: {verdict.message}"
    missing = ", ".join(it.process for it in verdict.missing)
    if isinstance(verdict, TimedOut):
        return f"{verdict.clock}: {verdict.message} ({missing})"
    return f"waiting for {missing}"
