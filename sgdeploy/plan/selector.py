"""Selectors: one small language for "which part of a deployment", the same in every command. Pure.

``prefill`` (a role), ``prefill/long`` (an instance), ``n0*`` (hosts), each with the globs ``*``, ``?`` and ``[…]``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from sgdeploy.errors import UsageError
from sgdeploy.plan.model import Plan, Process
from sgdeploy.profile.suggest import did_you_mean


def selected(plan: Plan, selectors: Sequence[str]) -> tuple[Process, ...]:
    """Give the processes that any of the selectors means, in plan order; all of them where there is no selector.

    Raises:
        UsageError: a selector that means nothing; says what there is.
    """
    for selector in selectors:
        if not matching(plan, [selector]):
            raise _unknown(plan, selector)
    return matching(plan, selectors)


def matching(plan: Plan, selectors: Sequence[str]) -> tuple[Process, ...]:
    """Give the same, and nobody for a selector that means nothing."""
    if not selectors:
        return plan.processes
    return tuple(p for p in plan.processes if any(_means(selector, p) for selector in selectors))


def selected_units(plan: Plan, selectors: Sequence[str]) -> tuple[str, ...]:
    """Give the units (instances, tokenizers, the router) that the selectors mean, in the order in which they start.

    Raises:
        UsageError: a selector means nothing, or only some hosts of an instance: it starts and stops as a whole.
    """
    chosen = selected(plan, selectors)
    units = {process.unit for process in chosen}
    ids = {process.id for process in chosen}  # Processes are models: to compare them with each other takes minutes.
    cut = {process.unit for process in plan.processes if process.unit in units and process.id not in ids}
    if cut:
        unit = min(cut)
        raise UsageError(
            f"{', '.join(selectors)} means only a part of {unit}, which starts and stops as a whole",
            hint=f"select `{unit}`",
        )
    return tuple(unit for stage in plan.stages for unit in stage if unit in units)


def _means(selector: str, process: Process) -> bool:
    return any(fnmatchcase(name, selector) for name in (process.role, process.unit, process.host))


def _unknown(plan: Plan, selector: str) -> UsageError:
    units = [unit for stage in plan.stages for unit in stage]
    names: Collection[str] = [*units, *{p.role for p in plan.processes}, *(host.host for host in plan.hosts)]
    near = did_you_mean(selector, names)
    guess = f"did you mean `{near}`? " if near else ""
    hint = f"{guess}units: {', '.join(units)}; hosts by name or glob"
    return UsageError(f"nothing in {plan.name} is called `{selector}`", hint=hint)
