"""Which logs belong together, and what their processes were told differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sgdeploy.diagnose.model import Evidence, Finding
from sgdeploy.diagnose.reading import Reading
from sgdeploy.diagnose.words import evidence, reasoned
from sgdeploy.engine.diagnosis import Rules

_ALIKE: Mapping[str, str] = {
    "dist_init_addr": "--dist-init-addr",
    "nnodes": "--nnodes",
    "tp_size": "--tp",
    "pp_size": "--pp-size",
    "dp_size": "--dp-size",
}
_ALIKE_IN_PD: Mapping[str, str] = {"page_size": "--page-size", "kv_cache_dtype": "--kv-cache-dtype"}


def role(reading: Reading) -> str:
    """Give ``prefill``, ``decode`` or ``native``: as planned, else as the process was told."""
    told = reading.arguments.get("disaggregation_mode", "null")
    return reading.log.role or (told if told in {"prefill", "decode"} else "native")


def instances(engines: Sequence[Reading]) -> list[list[Reading]]:
    """Put the processes of each instance together: by the plan, else by what they were told.

    Those that meet at one address belong together. What is left over, of which each has a different node rank, was
    meant to meet and was told different addresses.
    """
    groups: dict[str, list[Reading]] = {}
    for each in engines:
        groups.setdefault(each.log.unit or f"{role(each)} at {each.arguments.get('dist_init_addr', '?')}", []).append(
            each
        )
    if any(each.log.unit for each in engines):
        return list(groups.values())
    whole = [group for group in groups.values() if _complete(group)]
    rest = [group for group in groups.values() if not _complete(group)]
    merged: dict[str, list[Reading]] = {}
    for group in rest:
        known = [each for each in group if each.arguments]
        merged.setdefault(role(known[0]) if known else "native", []).extend(group)
    return [*whole, *merged.values()]


def _complete(group: Sequence[Reading]) -> bool:
    ranks = {each.arguments.get("node_rank") for each in group}
    return all(each.arguments for each in group) and len(ranks) >= int(group[0].arguments.get("nnodes", "1"))


def missing_ranks(group: Sequence[Reading]) -> list[int]:
    """Give the node ranks of an instance of which no log is at hand."""
    known = [each for each in group if each.arguments]
    if not known:
        return []
    there = {int(each.arguments.get("node_rank", "0")) for each in known}
    return [rank for rank in range(int(known[0].arguments.get("nnodes", "1"))) if rank not in there]


def differences(groups: Sequence[Sequence[Reading]], rules: Rules) -> Iterator[Finding]:
    """Find what processes that must agree were told differently."""
    for group in groups:
        told = [each for each in group if each.arguments]
        if len(told) > 1 and not all(each.came_up for each in told):
            yield from _differ(told, _ALIKE, "arguments-differ", rules)
            yield from _twice(told, rules)
    sides = [each for group in groups for each in group if role(each) in {"prefill", "decode"} and each.arguments]
    if len({role(each) for each in sides}) > 1:
        yield from _differ(sides, _ALIKE_IN_PD, "pd-arguments-differ", rules)


def _differ(told: Sequence[Reading], keys: Mapping[str, str], name: str, rules: Rules) -> Iterator[Finding]:
    for key, flag in keys.items():
        values = {each.log.process: each.arguments[key] for each in told if key in each.arguments}
        counts = Counter(values.values())
        if not counts or len(counts) == 1:
            continue
        rarest = min(counts.values())
        # Where as many say the one as the other, the leader is believed.
        odd = next(each for each in reversed(_leaders_first(told)) if counts[each.arguments.get(key, "")] == rarest)
        said = "; ".join(f"{process} {value}" for process, value in values.items())
        shown = tuple(_argument(each, key) for each in [odd, *(each for each in told if each is not odd)][:4])
        yield reasoned(rules.sentence(name), odd, shown, None, what=flag, values=said)


def _twice(told: Sequence[Reading], rules: Rules) -> Iterator[Finding]:
    """Find a node rank that two nodes were given; where each rank is a process of its own it is no wonder."""
    if len(told) != int(told[0].arguments.get("nnodes", "1")):
        return
    ranks = Counter(each.arguments.get("node_rank", "0") for each in told)
    for rank, count in ranks.items():
        if count > 1:
            same = [each for each in told if each.arguments.get("node_rank", "0") == rank]
            shown = tuple(_argument(each, "node_rank") for each in same)
            nodes = " and ".join(each.log.process for each in same)
            yield reasoned(rules.sentence("node-rank-twice"), same[-1], shown, None, nodes=nodes, rank=rank)


def _leaders_first(told: Iterable[Reading]) -> list[Reading]:
    return sorted(told, key=lambda each: int(each.arguments.get("node_rank", "0")))


def _argument(reading: Reading, key: str) -> Evidence:
    value = reading.arguments.get(key, "not set")
    return evidence(reading, reading.arguments_line, f"server_args … {key}: {value}")
