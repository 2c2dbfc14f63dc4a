"""The door of this folder: a word in, what it means in a plan and where its values come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgdeploy.plan.explain import derived
from sgdeploy.plan.explain.flags import explain_flag
from sgdeploy.plan.explain.inquiry import Inquiry
from sgdeploy.plan.explain.keys import explain_field, explain_key
from sgdeploy.plan.explain.variables import explain_variable
from sgdeploy.plan.part import Part
from sgdeploy.problems import KeyPath, Problem
from sgdeploy.profile.messages import dotted
from sgdeploy.profile.overrides import split_keys
from sgdeploy.profile.suggest import did_you_mean, nearest
from sgdeploy.profile.vocabulary import homes_of

if TYPE_CHECKING:
    from sgdeploy.plan.compile import Compiled
    from sgdeploy.plan.explain.said import Explanation

_HOMES = 3
"""So many places of a key are named where it is asked for without its section."""


def explain(compiled: Compiled, word: str, part: Part | None = None) -> list[Explanation] | Problem:
    """Tell where the value of something comes from.

    Args:
        compiled: the profile and its plan.
        word: a flag in any spelling (``page-size``, ``--tp``), an environment variable, a key of the profile or its
            inventory (``native.port``, ``engine``), or a field of processes (``cores``).
        part: look at this part of the plan only.

    Returns:
        One explanation for each thing that the word means, or what is wrong with the word.
    """
    inquiry = Inquiry(compiled, part or Part())
    path = None if word.startswith("-") else split_keys(word)
    if path is None or not path:
        return list(explain_flag(inquiry, word)) or _nothing(inquiry, word)
    if len(path) > 1 and path[-2] == "flags":
        return list(explain_flag(inquiry, f"--{path[-1]}")) or _nothing(inquiry, word)
    if len(path) > 1 and path[-2] == "env":
        return list(explain_variable(inquiry, str(path[-1]))) or _nothing(inquiry, word)
    found = list(explain_key(inquiry, path))
    if len(path) == 1:
        found += [*explain_flag(inquiry, word), *explain_variable(inquiry, word), *explain_field(inquiry, word)]
    return found or (_unknown(inquiry, path) if len(path) > 1 else None) or _nothing(inquiry, word)


def _nothing(inquiry: Inquiry, word: str) -> Problem:
    known = candidates(inquiry)
    near = did_you_mean(word.lstrip("-"), known)
    homes = homes_of(inquiry.schema.model, word)
    hint = "`sgdeploy plan PROFILE --host HOST` shows all that a host gets"
    if near or homes:
        hint = f"did you mean {near}?" if near else f"there is `{'` and `'.join(homes[:_HOMES])}`"
    return Problem(f"`{word}` is no flag, no variable and no key of this profile", hint, code="explain-unknown")


def _unknown(inquiry: Inquiry, path: KeyPath) -> Problem | None:
    """Name the first key of a path that does not stand in the profile and cannot."""
    for depth in range(len(path)):
        known = inquiry.schema.keys(path[:depth])
        if known and str(path[depth]) not in known:
            word = str(path[depth])
            near = did_you_mean(word, known)
            listed = nearest(word, (key for key in known if key.isidentifier()))
            where = f"`{dotted(path[:depth])}` has" if depth else "this profile has"
            hint = f"did you mean {near}?" if near else f"there are: {listed}"
            return Problem(f"{where} no key `{word}`", hint, code="explain-unknown")
    return None


def candidates(inquiry: Inquiry) -> set[str]:
    """Give the words that can be explained, but for paths of more than one key."""
    found = {*inquiry.schema.keys(()), *derived.FIELDS}
    for unit in inquiry.units.values():
        found |= {*unit.catalogue.flags, *unit.env.values, *unit.env.prepend}
    return found
