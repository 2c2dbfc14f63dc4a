"""The verdict over all logs: causes before symptoms, the earliest first, the faulty rank named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sgdeploy.diagnose.instances import differences, instances
from sgdeploy.diagnose.kernel import by_the_kernel
from sgdeploy.diagnose.model import Diagnosis, Finding, ProcessLog, Seen
from sgdeploy.diagnose.peers import midway, rehome, silent_peers, stuck, unexplained
from sgdeploy.diagnose.reading import Hit, Reading, read
from sgdeploy.diagnose.words import finding, last_line, reasoned, shown
from sgdeploy.engine.diagnosis import LEVELS, Matcher, Rules, diagnosis_rules

_COMPARED = {"arguments-differ", "node-rank-twice", "pd-arguments-differ"}
_LINE = 200
_REQUESTS = ("pd-", "kv-", "router-")
"""Beginnings of rules about what fails request by request, while the server goes on."""

_NEVER = float("inf")
_KILLED = {(9, None), (None, 137)}


def diagnose(logs: Iterable[ProcessLog], rules: Rules | None = None) -> Diagnosis:
    """Find what is wrong, from the logs of all processes of a deployment.

    Args:
        logs: one per process, and the kernel's where at hand.
        rules: other ones than those that ship.
    """
    known = rules or diagnosis_rules()
    matcher = Matcher(known)
    return judge([read(log, matcher) for log in logs], known)


def judge(readings: Sequence[Reading], rules: Rules) -> Diagnosis:
    """Judge logs that were read already."""
    return _Case(readings, rules).verdict()


@dataclass
class _Case:
    readings: Sequence[Reading]
    rules: Rules

    def verdict(self) -> Diagnosis:
        engines = [each for each in self.readings if each.kind == "engine"]
        servers = [each for each in self.readings if each.kind != "kernel"]
        hits = {each.log.process: list(counting(each)) for each in servers}
        groups = instances(engines)
        found = [
            rehome(each, reading, groups) if each.rule == "faulty-rank" else each
            for reading in servers
            for each in _own(reading, hits[reading.log.process])
        ]
        found += differences(groups, self.rules)
        found += silent_peers(groups, _told(found), hits, self.rules)
        found += stuck(groups, _told(found), self.rules)
        named = {each.process for each in found if each.level != "note"}
        found += unexplained(servers, named, self.rules)
        found = by_the_kernel(self.readings, found)
        named = {each.process for each in found if each.level != "note"}
        found += midway(groups, named, self.rules)
        return self._sorted(found)

    def _sorted(self, found: Sequence[Finding]) -> Diagnosis:
        routers = {each.log.process for each in self.readings if each.kind == "router"}

        def rank(each: Finding) -> tuple[int, bool, bool, float]:
            compared = each.rule not in _COMPARED
            return (
                LEVELS.index(each.level),
                compared,
                each.process in routers,
                each.at if each.at is not None else _NEVER,
            )

        # Within a log the order of lines is sure; across logs there are only their stamps.
        best = _one_each(sorted((each for each in found if each.level != "note"), key=_in_its_log))
        ordered = sorted(best, key=rank)
        first = ordered[0] if ordered else None
        causes = [each for each in ordered if each is first or (each.level == "cause" and first)]
        rest = [self._waits(each, first) for each in ordered if each not in causes]
        notes = [*(each for each in found if each.level == "note"), *self._own_kills(causes)]
        seen = tuple(_seen(each) for each in self.readings)
        stops = [each.log.stopped for each in self.readings if each.log.stopped is not None]
        return Diagnosis(tuple(causes), tuple(rest), tuple(notes), seen, min(stops, default=None))

    def _waits(self, each: Finding, first: Finding | None) -> Finding:
        """Say of a log that just ends before it was ready that its process waits for the one at fault."""
        engines = {one.log.process for one in self.readings if one.kind == "engine"}
        if first is None or each.rule != "stopped-midway" or first.process not in engines:
            return each
        reading = next(one for one in self.readings if one.log.process == each.process)
        sentence = self.rules.sentence("only-waits")
        return reasoned(sentence, reading, each.evidence, each.at, peer=first.process)

    def _own_kills(self, causes: Sequence[Finding]) -> Iterator[Finding]:
        for each in self.readings:
            ended = each.log.exit
            if ended and each.killed_itself and (ended.signal, ended.code) in _KILLED and causes:
                yield reasoned(self.rules.sentence("own-kill"), each, (last_line(each),), each.last_at)


def counting(reading: Reading) -> Iterator[Hit]:
    """Give the hits that count: not those that were overcome, that came on the way out, or that others explain."""
    lost_peer = False
    for hit in reading.hits:
        rule = hit.rule
        if hit.leaving or _overcome(reading, hit):
            continue
        if lost_peer and rule.level in {"lead", "vague"}:
            continue
        lost_peer = lost_peer or rule.id == "peer-lost"
        yield hit


def _overcome(reading: Reading, hit: Hit) -> bool:
    if hit.rule.phase == "start" and reading.up_line is not None and hit.number < reading.up_line:
        return True
    survived = reading.answered_line > hit.number
    if hit.rule.level == "vague" and (reading.log.alive or survived):
        return True
    if hit.rule.level in {"lead", "symptom"} and survived and not hit.rule.id.startswith(_REQUESTS):
        return True
    if hit.rule.id == "unanswered":
        return survived
    return hit.rule.id == "prompt-over-pool" and not _pool_is_small(reading)


def _pool_is_small(reading: Reading) -> bool:
    """Tell whether prompts are refused for want of KV cache, and not since they exceed the model's own length."""
    pool, context = reading.facts.get("pool", ""), reading.facts.get("context", "")
    return not (pool.isdigit() and context.isdigit()) or int(pool) < int(context)


def _own(reading: Reading, hits: Sequence[Hit]) -> Iterator[Finding]:
    """Say what a process's own log tells, once per rule."""
    by_rule: dict[str, list[Hit]] = {}
    for hit in hits:
        by_rule.setdefault(hit.rule.id, []).append(hit)
    for same in by_rule.values():
        names = same[0].rule.collect
        seen = {name: dict.fromkeys(hit.values[name] for hit in same if name in hit.values) for name in names}
        collected = {name: ", ".join(values) for name, values in seen.items() if values}
        best = max(same, key=lambda hit: len(hit.values)) if not names else same[0]
        told = finding(reading, best, collected=collected)
        yield replace(told, at=same[0].at)


def _told(found: Iterable[Finding]) -> set[str]:
    """Name the processes of which it is known what is wrong with them."""
    return {each.process for each in found if each.level in {"cause", "lead", "vague"} and each.rule not in _POINTING}


_POINTING = {
    "collective-watchdog",
    "peers-did-not-join",
    "rank-did-not-answer",
    "hccl-peer",
    "faulty-rank",
    "pd-kv-timeout",
    "router-no-worker",
}
"""Leads that point at another process: they do not explain their own."""


def _in_its_log(each: Finding) -> tuple[int, bool, int]:
    return LEVELS.index(each.level), each.rule not in _COMPARED, each.evidence[0].line


def _one_each(found: Iterable[Finding]) -> list[Finding]:
    """Keep the first finding of each process."""
    kept: dict[str, Finding] = {}
    for each in found:
        kept.setdefault(each.process, each)
    return list(kept.values())


def _seen(reading: Reading) -> Seen:
    phases = tuple(dict.fromkeys(milestone.phase for milestone in reading.reached))
    log = reading.log
    return Seen(log.process, log.host, log.path, reading.kind, phases, shown(reading.last[1], _LINE), reading.lines)
