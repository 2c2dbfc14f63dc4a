"""Why a key of a profile, or a field of a process, has its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgdeploy.plan.argv import split
from sgdeploy.plan.explain import derived
from sgdeploy.plan.explain.said import Answer, Explanation, Said, as_json, grouped, ranked, told
from sgdeploy.platforms.base import Shape
from sgdeploy.profile.messages import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sgdeploy.plan.explain.inquiry import Inquiry
    from sgdeploy.plan.model import Process
    from sgdeploy.platforms.base import Launch, Platform
    from sgdeploy.problems import KeyPath

_PLACED = {"cores", "memory_nodes", "hugepages"}


def explain_key(inquiry: Inquiry, path: KeyPath) -> Iterator[Explanation]:
    """Explain a key of the profile or its inventory, or each key below it; nothing where no such key may stand."""
    words = told(inquiry.places, path)
    written = words[-1].value if words else None
    below = dict.fromkeys([*(written if isinstance(written, dict) else ()), *inquiry.schema.fields(path)])
    if below and (not words or isinstance(written, dict)):
        for key in below:
            yield from explain_key(inquiry, (*path, key))
    elif words:
        yield _key(inquiry, path, ranked(words))
    elif inquiry.schema.knows(path):
        value = as_json(inquiry.schema.default(path))
        yield _key(inquiry, path, (Said("default of sgdeploy", value),))


def _key(inquiry: Inquiry, path: KeyPath, said: tuple[Said, ...]) -> Explanation:
    about = inquiry.schema.describe(path)
    return Explanation("key", dotted(path), about, (Answer(((said[0].value, ()),), said),))


def explain_field(inquiry: Inquiry, name: str) -> Iterator[Explanation]:
    """Explain a field of processes that is no flag and no variable; nothing where there is no such field."""
    if name not in derived.FIELDS:
        return
    answers = grouped(
        (_field_said(inquiry, process, name), _field(process, name), process.label) for process in inquiry.processes
    )
    yield Explanation("field", name, "a field of the plan, docs/plan-contract.md", answers)


def _field(process: Process, name: str) -> Any:
    if name == "program":
        return " ".join(split(process.argv)[0])
    return process.model_dump(mode="json", include={name})[name]


def _field_said(inquiry: Inquiry, process: Process, name: str) -> tuple[Said, ...]:
    unit = inquiry.units[process.unit]
    keys = derived.FIELDS[name]
    found = inquiry.because(unit, process.host, keys)
    if name in _PLACED and isinstance(unit.launch, Shape):
        causes = inquiry.influences(unit, f"{name} of {process.rank_in_node}", _place(process.rank_in_node, name))
        found += (
            Said(
                f"platform {inquiry.platform.kind}",
                standing="cause",
                note="how it shares a node out among its processes",
                causes=causes,
            ),
        )
    return found


def _place(rank: int | None, name: str) -> Any:
    def ask(platform: Platform, launch: Launch) -> Any:
        return getattr(platform.place(launch, rank), name) if isinstance(launch, Shape) else None

    return ask
