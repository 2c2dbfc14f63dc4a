"""The sentences of findings: a rule's text with everything filled in that is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sgdeploy.diagnose.model import Evidence, Finding
from sgdeploy.diagnose.reading import Hit, Reading
from sgdeploy.engine.catalogue import ENGINE, ROUTER, catalogue
from sgdeploy.engine.diagnosis import Moment, Rule, Sentence
from sgdeploy.node.keys import hide
from sgdeploy.profile.suggest import did_you_mean

SHOWN: Final = 400
"""Characters of a log line that are shown as evidence."""

_MOMENTS: Mapping[Moment, str] = {
    "start": "",
    "rendezvous": " while the ranks joined",
    "weights": " while the weights were loaded",
    "kv-cache": " while the KV cache was set up",
    "graphs": " while graphs were captured",
    "serving": " while serving",
    "prefill": " in a prefill",
    "decode": " in a decode step",
}
_COMMAND = re.compile(r"process\.cmdline\(\)=\[(?P<words>[^\]]*)\]?")
_PID = re.compile(r"\bpid[=: ]+(?P<pid>\d+)")
_TELLING = ("--node-rank", "--rank", "--port", "--disaggregation-mode")
_NAMED_PORTS = (
    ("port", "its HTTP port"),
    ("nccl_port", "its collective port"),
    ("disaggregation_bootstrap_port", "its bootstrap port"),
)


class _Values(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "unknown"


def finding(reading: Reading, hit: Hit, *, collected: Mapping[str, str] | None = None) -> Finding:
    """Say what a hit means for its process.

    Args:
        reading: of the process at fault.
        hit: the line.
        collected: values that were gathered from several hits.
    """
    rule, moment = hit.rule, hit.moment
    cause, step = texts(rule, moment)
    values = _Values({**rule.words, **reading.arguments, **reading.facts, **hit.values, **(collected or {})})
    values["moment"] = _MOMENTS[moment]
    values["port_role"] = _port_role(reading, values)
    values["holder_said"] = _holder(hit.values.get("holder", ""))
    values["near_flag"] = _near_flag(reading, hit.values.get("flag", ""))
    values["file_said"] = f" below {path}" if (path := reading.arguments.get("model_path")) else ""
    return Finding(
        rule=rule.id,
        level=rule.level,
        process=reading.log.process,
        host=reading.log.host,
        rank=hit.rank,
        cause=cause.format_map(values),
        next=step.format_map(values),
        source=rule.source,
        evidence=(evidence(reading, hit.number, hit.line),),
        at=hit.at,
    )


def texts(rule: Rule, moment: Moment) -> tuple[str, str]:
    """Give cause and next step of a rule in a moment."""
    special = rule.at.get(moment)
    if special is None:
        return rule.cause, rule.next
    return special.cause or rule.cause, special.next or rule.next


def reasoned(
    sentence: Sentence, reading: Reading, shown: tuple[Evidence, ...], at: float | None, **values: str
) -> Finding:
    """Say what was found by comparing logs."""
    filled = _Values({**reading.arguments, "process": reading.log.process, **values})
    return Finding(
        rule=sentence.id,
        level=sentence.level,
        process=reading.log.process,
        host=reading.log.host,
        rank="",
        cause=sentence.cause.format_map(filled),
        next=sentence.next.format_map(filled),
        source=sentence.source,
        evidence=shown,
        at=at,
    )


def evidence(reading: Reading, number: int, line: str) -> Evidence:
    """Show a line of a log."""
    return Evidence(reading.log.path or reading.log.process, number, shown(line, SHOWN))


def shown(line: str, most: int) -> str:
    """Make a line fit to be shown: the engine writes its keys into its own log."""
    return hide(line.strip())[:most]


def last_line(reading: Reading) -> Evidence:
    """Show where a log ends."""
    return evidence(reading, *reading.last)


def _port_role(reading: Reading, values: Mapping[str, str]) -> str:
    port = values.get("port", "")
    planned = next((name for name, number in reading.log.listens.items() if str(number) == port), None)
    if planned:
        return f" ({planned})"
    told = reading.arguments
    if port and told.get("dist_init_addr", "").endswith(f":{port}"):
        return " (the rendezvous of its ranks)"
    for name, words in _NAMED_PORTS:
        if port and told.get(name) == port:
            return f" ({words})"
    return f" ({name}, derived from another port)" if (name := values.get("name", "")) else ""


def _holder(text: str) -> str:
    """Name the process that holds a port, where the engine tells: by its program and what tells it from others."""
    if match := _COMMAND.search(text):
        words = [word.strip().strip("'\"") for word in match["words"].split(",")]
        told = [f"{words[i]} {words[i + 1]}" for i in range(len(words) - 1) if words[i] in _TELLING]
        return f" by another process: {' '.join([*words[:3], '…', *told])}"
    return f" by process {match['pid']}" if (match := _PID.search(text)) else ""


def _near_flag(reading: Reading, flag: str) -> str:
    if not flag.startswith("--"):
        return ""
    known = reading.flags - {flag}
    if not known:
        program = ROUTER if reading.kind == "router" else ENGINE
        known = {f"--{name}" for name in catalogue(program.versions[-1], program).flags}
    near = did_you_mean(flag, known)
    return f"; did you mean {near}?" if near else ""
