"""Reading one log: which rules it hits, how far the process came, what it was told. One pass, little memory."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sgdeploy.diagnose.arguments import arguments, facts, usage_flags
from sgdeploy.diagnose.model import Kind, ProcessLog
from sgdeploy.diagnose.stamps import plain, stamp, year_of
from sgdeploy.engine.diagnosis import Matcher, Moment, Rule
from sgdeploy.engine.milestones import Milestone, milestone_sets

ABOVE: Final = 60
"""Lines above a hit that are looked at."""

HITS: Final = 200
"""So many hits of one log are kept; what comes first is what matters."""

_HEAD = 300
_SOURCE = 160
_ROUTER = re.compile(r"\bsmg::|\bsglang_router|\bStarting router on\b|\[Router \(Rust\)\]")
_KERNEL = re.compile(r"\binvoked oom-killer\b|\boom-kill:|^\[ *\d+\.\d+\] |\bkernel: ")
_ENGINE = re.compile(r"\bserver_args\s*=|\bsglang[./]")
_LEAVING = re.compile(r"\bSIGTERM received\b|\bGracefully exiting\b|\bINFO: +Shutting down\b|\bShutdownReq\b")
_OWN_KILL = re.compile(r"\bkill_process_tree called\b.*\binclude_parent=True\b")
_ANSWERED = re.compile(r'"(?:GET|POST) /(?:health|generate|v1/)[^"]*" 200\b')
_BATCH = re.compile(r"\b(?P<what>Prefill|Decode) batch\b")
_FORWARD = re.compile(r"\bforward_(?P<what>extend|decode)\b|\b(?P<graph>capture)_?\w*graph", re.IGNORECASE)
_RUN_OVER = re.compile(
    r"\bkill_process_tree called\b|\bFinished server process\b|^Traceback |\bfired up and ready\b"
    r"|\bGracefully exiting\b"
)
_MOMENTS: Mapping[str, Moment] = {
    "ranks-begin": "rendezvous",
    "ranks-end": "start",
    "weights-begin": "weights",
    "weights-end": "kv-cache",
    "memory-pool": "start",
    "graphs-begin": "graphs",
    "graphs-end": "start",
    "http-up": "serving",
    "dummy-http-up": "serving",
}


@dataclass(frozen=True)
class Hit:
    """A line that a rule took.

    Attributes:
        rule: the rule.
        number: of the line.
        line: its text.
        values: what was found in it.
        at: when, by its own stamp or the last one above.
        rank: tag of the rank, "" where none is named.
        moment: what the process was doing.
        leaving: whether it was on its way out already.
    """

    rule: Rule
    number: int
    line: str
    values: Mapping[str, str]
    at: float | None
    rank: str
    moment: Moment
    leaving: bool


@dataclass
class Reading:
    """What one log says.

    Attributes:
        log: whose it is.
        kind: by its role, else by its words.
        arguments: what the process was told, by its own argument line.
        arguments_line: number of that line.
        facts: other values, such as the size of the KV pool.
        flags: flags that a usage text names.
        reached: milestones in the order of the log.
        hits: lines that rules took.
        lines: how many were read.
        last: number and text of the last line that says something.
        last_at: time of the last stamp.
        moment: what it was doing last.
        up_line: line by which it had come up, None where it never did.
        leaving: whether it was asked to leave and did.
        killed_itself: whether it ended its own tree after a crash: then exit code 137 says nothing about memory.
        answered_at: when a request was answered last.
        answered_line: number of that line.
    """

    log: ProcessLog
    kind: Kind = "engine"
    arguments: dict[str, str] = field(default_factory=dict)
    arguments_line: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    reached: list[Milestone] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    lines: int = 0
    last: tuple[int, str] = (0, "")
    last_at: float | None = None
    moment: Moment = "start"
    up_line: int | None = None
    leaving: bool = False
    killed_itself: bool = False
    answered_at: float | None = None
    answered_line: int = 0

    @property
    def came_up(self) -> bool:
        """Whether it said that it is ready, or that it has loaded where it says no more than that."""
        return self.up_line is not None

    def has(self, name: str) -> bool:
        """Tell whether a milestone was reached."""
        return any(milestone.name == name for milestone in self.reached)


class _Reader:
    """The state of one pass."""

    def __init__(self, log: ProcessLog, rules: Matcher, kind: Kind) -> None:
        sets = milestone_sets()
        chosen = sets["router" if kind == "router" else "engine"].milestones
        follower = sets["engine-follower"].milestones if kind == "engine" else ()
        self._open = {each.name: (each, re.compile(each.pattern)) for each in (*chosen, *follower)}
        self._rules = rules
        self._above: deque[str] = deque(maxlen=ABOVE)
        self._year: int | None = None
        self._tag = ""
        self._moment: Moment = "start"
        self._batch: Moment | None = None
        self.found = Reading(log, kind)

    def line(self, number: int, text: str) -> None:
        found = self.found
        found.lines += 1
        if text.strip():
            found.last = (number, text)
        seen = stamp(text, self._year)
        if seen:
            found.last_at, self._tag = seen.at - found.log.ahead, seen.tag
            self._year = year_of(seen.at)
        if told := arguments(text):
            found.arguments.update(told)
            found.arguments_line = number
        else:
            found.facts.update(facts(text))
            found.flags.update(usage_flags(text))
        self._milestones(number, text)
        self._signs(number, text)
        self._search(number, text, text[seen.length :].lstrip("] ") if seen else text)
        self._above.append(text)

    def _milestones(self, number: int, text: str) -> None:
        for name in [name for name, (_, pattern) in self._open.items() if pattern.search(text)]:
            milestone, _ = self._open.pop(name)
            self.found.reached.append(milestone)
            self._moment = _MOMENTS.get(name, self._moment)
            if milestone.state == "ready":
                self.found.up_line = number

    def _signs(self, number: int, text: str) -> None:
        found = self.found
        if match := _BATCH.search(text):
            self._batch = "prefill" if match["what"] == "Prefill" else "decode"
        elif _ANSWERED.search(text):
            found.answered_at, found.answered_line = found.last_at, number
        elif _LEAVING.search(text):
            found.leaving = True
        elif _OWN_KILL.search(text):
            found.killed_itself = True

    def _search(self, number: int, text: str, body: str) -> None:
        if len(self.found.hits) >= HITS:
            return
        taken = self._rules.take(body, self.found.kind, self._above)
        if taken is None:
            return
        found = self.found
        moment = self.moment_now()
        values = {"text": self._asserted(), **taken.values} if taken.rule.id == "exception" else taken.values
        hit = Hit(taken.rule, number, text, values, found.last_at, self._tag, moment, found.leaving)
        found.hits.append(hit)
        if hit.rule.level == "note":
            found.facts.update(hit.values)

    def _asserted(self) -> str:
        """Give the line of source that an error without a text of its own came from."""
        code = (line.strip() for line in reversed(self._above) if line.strip(" ^~"))
        return next(code, "no text")[:_SOURCE]

    def moment_now(self) -> Moment:
        """Tell what it was doing: by its traceback, else by its last batch, else by the last milestone."""
        for line in reversed(self._above):
            if match := _FORWARD.search(line):
                if match["graph"]:
                    return "graphs"
                return "prefill" if match["what"] == "extend" else "decode"
        return self._batch if self._moment == "serving" and self._batch else self._moment


def read(log: ProcessLog, rules: Matcher) -> Reading:
    """Read a log; of several runs in one file only the last one counts."""
    lines = [(number, plain(text).replace("\r", " ").rstrip()) for number, text in log.lines]
    kind = _kind(log.role, [text for _, text in lines[:_HEAD]])
    reader = _Reader(log, rules, kind)
    for number, text in lines[_last_run(lines) :]:
        reader.line(number, text)
    reader.found.moment = reader.moment_now()
    return reader.found


def _kind(role: str, head: Sequence[str]) -> Kind:
    if role:
        return "router" if role == "router" else "kernel" if role == "kernel" else "engine"
    for text in head:
        if _ENGINE.search(text) and not _ROUTER.search(text):
            return "engine"
        if _ROUTER.search(text):
            return "router"
        if _KERNEL.search(text):
            return "kernel"
    return "engine"


def _last_run(lines: Sequence[tuple[int, str]]) -> int:
    """Find where the last run begins: at an argument line of a rank that had one before and has ended since."""
    begin, seen, over = 0, set[str](), False
    for index, (_, text) in enumerate(lines):
        told = arguments(text)
        if told is None:
            over = over or bool(seen and _RUN_OVER.search(text))
            continue
        rank = told.get("node_rank", "0")
        if over and rank in seen:
            begin, seen, over = index, set(), False
        seen.add(rank)
    return begin
