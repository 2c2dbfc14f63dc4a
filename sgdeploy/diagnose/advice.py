"""Steady-state advice: what the figures of a server that works say about its settings. Pure; thresholds with sources.

The thresholds are those of SGLang's own tuning guide (token usage, queue, retractions, free memory).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from sgdeploy.diagnose.arguments import arguments, facts
from sgdeploy.diagnose.stamps import plain, stamp

USAGE_LOW: Final = 0.9
"""Token usage below which a queue means that the scheduler is too careful."""

QUEUE_HEALTHY: Final = (1, 2000)
"""Requests that may wait: none says that clients send too slowly, more than these that one server is too few."""

MEMORY_GB: Final = (5.0, 10.0)
"""Free device memory after the start, in GB: less is risky under load, more is KV cache that is not there."""

RETRACTS_PER_MINUTE: Final = 1.0
"""About one retraction a minute is normal."""

RECENT: Final = 40
"""So many of the last decode lines are looked at."""

LEAST: Final = 3
"""With fewer decode lines there is nothing to judge."""

COMPILES: Final = 20
"""So many lines about compiling kernels say that the cache of kernels does not last."""

_DECODE = re.compile(r"\bDecode batch\b.*")
_NUMBERS = {
    "running": re.compile(r"#running-req: (\d+)"),
    "usage": re.compile(r"token usage: ([\d.]+)"),
    "throughput": re.compile(r"gen throughput \(token/s\): ([\d.]+)"),
    "queue": re.compile(r"#queue-req: (\d+)"),
}
_METRICS = {
    "running": re.compile(r"^sglang:num_running_reqs(?:\{[^}]*\})? ([\d.eE+-]+)", re.MULTILINE),
    "usage": re.compile(r"^sglang:token_usage(?:\{[^}]*\})? ([\d.eE+-]+)", re.MULTILINE),
    "throughput": re.compile(r"^sglang:gen_throughput(?:\{[^}]*\})? ([\d.eE+-]+)", re.MULTILINE),
    "queue": re.compile(r"^sglang:num_queue_reqs(?:\{[^}]*\})? ([\d.eE+-]+)", re.MULTILINE),
}
_RETRACT = re.compile(r"(?i)\b(KV cache pool is full\. Retract|Decode out of memory happened)")
_FREE = re.compile(r"\bavailable_gpu_mem=([\d.]+) ?GB")
_COMPILE = re.compile(r"(?i)\b(compil(e|ing)|jit)\b.*\bkernels?\b|\bDeepGEMM\b.*\b(warm-?up|compil\w*)\b")


@dataclass(frozen=True)
class Advice:
    """What a figure says about a setting.

    Attributes:
        process: whose figure it is.
        host: inventory name.
        figure: as it was read.
        meaning: what it says.
        setting: what to change, and to which value.
    """

    process: str
    host: str
    figure: str
    meaning: str
    setting: str


@dataclass(frozen=True)
class Figures:
    """What one decode line, or a page of metrics, says."""

    running: float
    usage: float
    throughput: float
    queue: float


@dataclass
class _Server:
    decode: list[Figures] = field(default_factory=list)
    retracts: list[float] = field(default_factory=list)
    begin: float | None = None
    end: float | None = None
    free: float | None = None
    compiles: int = 0
    told: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)


def advise(process: str, host: str, lines: Iterable[str], metrics: str = "") -> list[Advice]:
    """Give advice on a server.

    Args:
        process: its id.
        host: inventory name.
        lines: of its log, begin and end.
        metrics: the page that it serves at /metrics, "" where it serves none.
    """
    server = _read(lines)
    if page := figures(metrics, _METRICS):
        server.decode.append(page)
    rules = (_queue, _retractions, _memory, _pool, _compiling)
    found = [told for rule in rules if (told := rule(server)) is not None]
    return [Advice(process, host, *told) for told in found]


def figures(text: str, patterns: dict[str, re.Pattern[str]] | None = None) -> Figures | None:
    """Read the four figures of a decode line; None where one is missing."""
    found = {name: pattern.search(text) for name, pattern in (patterns or _NUMBERS).items()}
    values = {name: float(match[1]) for name, match in found.items() if match is not None}
    return Figures(**values) if len(values) == len(found) else None


def _read(lines: Iterable[str]) -> _Server:
    server = _Server()
    for raw in lines:
        line = plain(raw)
        told = arguments(line)
        if told is not None:
            server = _Server(told=told)  # what an earlier run wrote into the same file does not count
        server.facts.update(facts(line))
        seen = stamp(line)
        if _DECODE.search(line) and (read := figures(line)):
            server.decode.append(read)
            server.end = seen.at if seen else server.end
            server.begin = server.begin if server.begin is not None else server.end
        if _RETRACT.search(line) and seen:
            server.retracts.append(seen.at)
        if match := _FREE.search(line):
            server.free = float(match[1])
        server.compiles += bool(_COMPILE.search(line))
    return server


def _queue(server: _Server) -> tuple[str, str, str] | None:
    recent = server.decode[-RECENT:]
    if len(recent) < LEAST:
        return None
    usage, queue = _mean(each.usage for each in recent), _mean(each.queue for each in recent)
    running = _mean(each.running for each in recent)
    figure = f"token usage {usage:.2f}, {queue:.0f} requests wait, {running:.0f} run (mean of {len(recent)} lines)"
    limit = server.told.get("max_running_requests", "")
    if all(each.queue == 0 for each in recent):
        meaning = "nothing waits: clients send too slowly to fill it"
        return figure, meaning, "raise the concurrency of the clients; settings of the server will not raise throughput"
    if limit.isdigit() and running >= 0.98 * int(limit) and usage < USAGE_LOW:
        return figure, "the limit of running requests holds others back", f"raise --max-running-requests (now {limit})"
    if queue >= QUEUE_HEALTHY[0] and usage < USAGE_LOW:
        now = server.told.get("schedule_conservativeness", "1.0")
        meaning = (
            f"requests wait although less than {USAGE_LOW:.0%} of the KV cache is used: the scheduler is too careful"
        )
        return figure, meaning, f"lower --schedule-conservativeness to 0.3 (now {now})"
    if queue > QUEUE_HEALTHY[1]:
        return figure, "more wait than one server works off", "add instances behind the router, or more devices"
    return None


def _retractions(server: _Server) -> tuple[str, str, str] | None:
    if not server.retracts:
        return None
    end = max(server.end or server.retracts[-1], server.retracts[-1])
    begin = min(server.begin if server.begin is not None else server.retracts[0], server.retracts[0])
    minutes = max(1.0, (end - begin) / 60)
    rate = len(server.retracts) / minutes
    if rate <= RETRACTS_PER_MINUTE:
        return None
    now = server.told.get("schedule_conservativeness", "1.0")
    return (
        f"{len(server.retracts)} retractions in {minutes:.0f} min",
        "the KV cache runs full and requests are computed again; about one a minute is normal",
        f"raise --schedule-conservativeness to 1.3 (now {now}), or lower --max-running-requests",
    )


def _memory(server: _Server) -> tuple[str, str, str] | None:
    if server.free is None:
        return None
    now = server.told.get("mem_fraction_static", "the default")
    figure = f"{server.free:.1f} GB of device memory free after the start"
    least, most = MEMORY_GB
    if server.free > most:
        return (
            figure,
            f"5 to 8 GB are enough; above {most:.0f} is KV cache given away",
            f"raise --mem-fraction-static (now {now}) by 0.01 to 0.05",
        )
    if server.free < least:
        return (
            figure,
            f"below {least:.0f} GB it may run out under load",
            f"lower --mem-fraction-static (now {now}) by 0.01 to 0.02",
        )
    return None


def _pool(server: _Server) -> tuple[str, str, str] | None:
    pool, context = server.facts.get("pool", ""), server.facts.get("context", "")
    if not (pool.isdigit() and context.isdigit()) or int(pool) >= int(context):
        return None
    figure = f"KV pool of {pool} tokens, context length {context}"
    setting = "raise --max-total-tokens or --mem-fraction-static, or lower --context-length"
    return figure, "no request of full length fits", setting


def _compiling(server: _Server) -> tuple[str, str, str] | None:
    if server.compiles < COMPILES:
        return None
    return (
        f"{server.compiles} lines about compiling kernels",
        "kernels are compiled anew at each start: their cache is not kept",
        "put the kernel cache folder on a fast disk that may be written and lasts",
    )


def _mean(values: Iterable[float]) -> float:
    all_of_them = list(values)
    return sum(all_of_them) / len(all_of_them)
