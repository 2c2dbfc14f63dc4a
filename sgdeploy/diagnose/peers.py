"""What no log says itself: who died without a word, who is cut off, who stands still."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from sgdeploy.diagnose.instances import missing_ranks, role
from sgdeploy.diagnose.model import Finding
from sgdeploy.diagnose.reading import Hit, Reading
from sgdeploy.diagnose.stamps import seconds_of_day
from sgdeploy.diagnose.words import evidence, last_line, reasoned
from sgdeploy.engine.diagnosis import Rules
from sgdeploy.health.machine import HUNG_AFTER
from sgdeploy.health.states import Exit

LATER = 2.0
"""Seconds by which the clocks of two hosts and the last line of a log may differ: before that, a log has stopped."""

SILENT = 10.0
"""Seconds by which a log must have stopped before all others of its instance that stand at the same place."""

_POINTERS = {
    "peer-lost",
    "pd-peer-lost",
    "collective-watchdog",
    "weights-barrier",
    "hccl-peer",
    "peers-did-not-join",
    "rank-did-not-answer",
}
_KILLED = 9
_ASKED = (15, 2, 1)
_SHELL = 128
"""A shell adds this to the number of the signal that ended its child."""
_UNITS = (3600, 60, 1)
_DAY = 86400.0
_NEVER = float("inf")


def how(reading: Reading) -> str:
    """Say how a process ended, as far as it is known."""
    return "no last words" if reading.log.exit is None else reading.log.exit.text()


def silent_peers(
    groups: Sequence[Sequence[Reading]], told: Collection[str], hits: dict[str, list[Hit]], rules: Rules
) -> Iterator[Finding]:
    """Find the peers that those lost who say that they lost one.

    Args:
        groups: instances.
        told: processes that say themselves what is wrong with them.
        hits: the hits of each process that count.
        rules: for the sentences.
    """
    named: set[str] = set()
    for group in groups:
        for reading in group:
            for hit in hits.get(reading.log.process, ()):
                if hit.rule.id in _POINTERS:
                    yield from _lost(reading, hit, _others(groups, group, reading, hit), told, named, hits, rules)
                    break


def _others(groups: Sequence[Sequence[Reading]], group: Sequence[Reading], reading: Reading, hit: Hit) -> list[Reading]:
    if hit.rule.id != "pd-peer-lost":
        return [each for each in group if each is not reading]
    return [each for other in groups for each in other if role(each) not in {role(reading), "router"}]


def _lost(
    reading: Reading,
    hit: Hit,
    others: Sequence[Reading],
    told: Collection[str],
    named: set[str],
    hits: dict[str, list[Hit]],
    rules: Rules,
) -> Iterator[Finding]:
    if any(each.log.process in told for each in others):
        return
    shown = evidence(reading, hit.number, hit.line)
    quiet = [each for each in others if _stopped(each, hit, hits)]
    quiet = [each for each in quiet if each.arguments.get("host", "?") in hit.line] or quiet
    for each in quiet:
        if each.log.process not in named:
            named.add(each.log.process)
            sentence = rules.sentence("died-without-a-word")
            yield reasoned(sentence, each, (last_line(each), shown), each.last_at, how=how(each))
    if quiet or named or hit.rule.id not in {"peer-lost", "pd-peer-lost"}:
        return
    if others and all(each.log.alive for each in others):
        peers = ", ".join(each.log.process for each in others[:4])
        yield reasoned(rules.sentence("cut-off"), reading, (shown,), hit.at, peers=peers)
        return
    if others and not missing_ranks([reading, *others]) and all(_gave_up(each, hits) for each in others):
        if all(hit.at is None or hit.at <= (_gave_up(each, hits) or _NEVER) for each in others):
            named.add(reading.log.process)  # of those that gave up in the same second, one is enough
            yield reasoned(rules.sentence("waited-for-each-other"), reading, (shown,), hit.at)
    else:
        ranks = ", ".join(str(rank) for rank in missing_ranks([reading, *others]))
        missing = f"node rank {ranks}" if ranks else "no other log of the instance tells of its end"
        yield reasoned(rules.sentence("peer-without-log"), reading, (shown,), hit.at, missing=missing)


def _gave_up(reading: Reading, hits: dict[str, list[Hit]]) -> float | None:
    """Tell when it said that it lost a peer, None where it did not."""
    return next((each.at for each in hits.get(reading.log.process, ()) if each.rule.id in _POINTERS), None)


def _stopped(peer: Reading, hit: Hit, hits: dict[str, list[Hit]]) -> bool:
    """Tell whether a peer's log stops without saying why, before or when another one lost it."""
    if peer.log.alive or peer.leaving or (not peer.came_up and hit.rule.id == "peers-did-not-join"):
        return False
    if any(each.rule.level != "note" for each in hits.get(peer.log.process, ())):
        return False
    return peer.last_at is None or hit.at is None or peer.last_at <= hit.at + LATER


def stuck(groups: Sequence[Sequence[Reading]], told: Collection[str], rules: Rules) -> Iterator[Finding]:
    """Find servers that answered no health check for so long that they are not merely busy."""
    for group in groups:
        for reading in group:
            silent = [hit for hit in reading.hits if hit.rule.id == "unanswered" and hit.number > reading.answered_line]
            seconds = _unanswered(reading, silent)
            if reading.log.process in told or not silent or seconds < HUNG_AFTER:
                continue
            quiet = [each for each in group if each is not reading and not _speaks(each, silent[0])]
            names = ", ".join(each.log.process for each in quiet[:4])
            blamed = f", and nothing was heard of {names} since" if names else ""
            at_fault = quiet[0] if len(quiet) == 1 else reading
            shown = (evidence(reading, silent[-1].number, silent[-1].line), *map(last_line, quiet[:3]))
            values = {"process": reading.log.process, "seconds": f"{seconds:.0f}", "blamed": blamed}
            yield reasoned(rules.sentence("stuck"), at_fault, shown, silent[0].at, **values)


def _unanswered(reading: Reading, silent: Sequence[Hit]) -> float:
    """Give the seconds from the last sign of life to the last health check that failed."""
    if not silent or silent[-1].at is None:
        return 0.0
    begin = reading.answered_at
    heartbeat = silent[-1].values.get("heartbeat", "").split(":")
    if len(heartbeat) == len(_UNITS):
        of_day = sum(int(part) * unit for part, unit in zip(heartbeat, _UNITS, strict=True))
        since = (seconds_of_day(silent[-1].at + reading.log.ahead) - of_day) % _DAY
        begin = max(begin or 0.0, silent[-1].at - since)
    return 0.0 if begin is None else silent[-1].at - begin


def _speaks(peer: Reading, hit: Hit) -> bool:
    return peer.last_at is not None and hit.at is not None and peer.last_at > hit.at


def unexplained(readings: Sequence[Reading], told: Collection[str], rules: Rules) -> Iterator[Finding]:
    """Find processes that ended, and whose own log says nothing about it."""
    for reading in readings:
        ended = reading.log.exit
        gone = reading.log.alive is False or ended is not None
        if not gone or reading.leaving or reading.log.process in told:
            continue
        number = _signal(ended)
        name = "died-without-a-word" if ended is None or number == _KILLED else "ended-unexplained"
        name = "asked-to-stop" if number in _ASKED else name
        yield reasoned(rules.sentence(name), reading, (last_line(reading),), reading.last_at, how=how(reading))


def _signal(ended: Exit | None) -> int | None:
    if ended is None:
        return None
    return ended.code - _SHELL if ended.code is not None and ended.code > _SHELL else ended.signal


def midway(groups: Sequence[Sequence[Reading]], told: Collection[str], rules: Rules) -> Iterator[Finding]:
    """Find logs that end before their process was ready; of an instance the one that is furthest behind is at fault.

    One that still runs may just need its time: that is a note. One that is known to have ended is not asked.
    """
    for group in groups:
        waiting = [each for each in group if _midway(each, told)]
        whole = len(waiting) == len(group)
        behind = _behind(waiting) if whole else None
        ranks = ", ".join(str(rank) for rank in missing_ranks(group))
        missing = f"; no log of node rank {ranks} is here" if ranks else ""
        for reading in waiting:
            shown, at = (last_line(reading),), reading.last_at
            if reading is behind:
                others = max((each for each in waiting if each is not behind), key=_progress)
                sentence, values = rules.sentence("lags-behind"), {"others": _phase(others)}
                found = reasoned(sentence, reading, shown, at, phase=_phase(reading), **values)
                yield replace(found, level="note") if reading.log.runs else found
            elif not reading.log.runs:
                sentence = rules.sentence("stopped-midway")
                yield reasoned(sentence, reading, shown, at, phase=_phase(reading), missing=missing)
        if whole and behind is None and len(waiting) > 1 and all(each.log.alive for each in waiting):
            found = _for_each_other(waiting, rules)
            yield replace(found, level="note") if any(each.log.runs for each in waiting) else found


def _for_each_other(waiting: Sequence[Reading], rules: Rules) -> Finding:
    """Say of processes that live and stand at the same place which one fell silent first, else that all wait."""
    order = sorted(waiting, key=lambda each: each.last_at or 0.0)
    first, second = order[0], order[1]
    phase, count = _phase(first), str(len(waiting))
    if first.last_at is not None and second.last_at is not None and second.last_at - first.last_at >= SILENT:
        seconds = f"{second.last_at - first.last_at:.0f}"
        shown = tuple(map(last_line, (first, order[-1])))
        sentence, values = rules.sentence("fell-silent"), {"phase": phase, "count": count, "seconds": seconds}
        return reasoned(sentence, first, shown, first.last_at, **values)
    hits = (hit for each in waiting for hit in each.hits if hit.rule.id == "peers-did-not-join")
    joined = next((f"; {hit.values['joined']} of {hit.values['expected']} have joined" for hit in hits), "")
    shown = tuple(map(last_line, order[:3]))
    return reasoned(rules.sentence("all-wait"), first, shown, first.last_at, phase=phase, count=count, joined=joined)


def _midway(reading: Reading, told: Collection[str]) -> bool:
    ended = reading.log.alive is False or reading.log.exit is not None
    idle = reading.came_up or reading.leaving or not reading.lines
    return not ended and not idle and reading.log.process not in told


def _behind(waiting: Sequence[Reading]) -> Reading | None:
    """Give the one that is further behind than all others of its instance."""
    order = sorted(waiting, key=_progress)
    return order[0] if len(order) > 1 and _progress(order[0]) < _progress(order[1]) else None


def _progress(reading: Reading) -> int:
    return len(reading.reached)


def _phase(reading: Reading) -> str:
    return reading.reached[-1].phase if reading.reached else "not yet at its arguments"


def rehome(found: Finding, reading: Reading, groups: Sequence[Sequence[Reading]]) -> Finding:
    """Move what a barrier says about a rank to the node that holds this rank, where its log is at hand."""
    group = next((each for each in groups if reading in each), ())
    told = reading.arguments
    sizes = [int(told.get(name, "1")) for name in ("tp_size", "pp_size", "nnodes")]
    rank = next((hit.values.get("rank") for hit in reading.hits if hit.rule.id == found.rule), None)
    per_node = sizes[0] * sizes[1] // sizes[2]
    if rank is None or not per_node:
        return found
    node = str(int(rank) // per_node)
    guilty = next((each for each in group if each.arguments.get("node_rank") == node), None)
    if guilty is None or guilty is reading:
        return found
    return replace(found, process=guilty.log.process, host=guilty.log.host, rank=f"rank {rank}")
