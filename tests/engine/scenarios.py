"""The script of probes: what either engine shows of itself, told as short sequences of words.

A *story* has topics; each is a sequence that must come out alike whenever it is told: statuses in order, log lines in
order, how processes ended. Times are in it only as lower bounds that the engine itself keeps.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from tests.engine.lines import lines_in
from tests.engine.polling import Answer, Poll, polling
from tests.engine.questions import HELLO, LONG, OF_A_FOLLOWER, QUESTIONS, Question, get, put, told
from tests.engine.ranks import (
    HEALTH_LIMIT,
    HTTP_PORT,
    NOTHING,
    PATIENCE,
    RENDEZVOUS_PORT,
    Rank,
    Ranks,
    kill_all,
    processes,
)
from tests.kit.labhost import wait_until

Story: TypeAlias = "dict[str, list[str]]"
Scenario: TypeAlias = "Callable[[Ranks], Story]"

READY = "The server is fired up and ready to roll!"
GREEN = "Dummy health check server started in background thread at"
FORKED = "Using default HuggingFace chat template"
"""The leader's first line once its children, one scheduler and the detokenizer, have been started; they import then."""

PATHS = ("/health", "/health_generate", "/ping", "/ready", "/model_info", "/server_info", "/v1/models", "/metrics")
NOBODY = RENDEZVOUS_PORT + 1
"""A port at which nobody waits."""

COMPLETION = Question("POST", "/v1/completions", HELLO)
SLOW = {"SGDEPLOY_REHEARSE_SPEED": "0.1"}
"""Makes the simulated engine about as slow as the real one."""


def yes(*facts: bool) -> list[str]:
    """Tell facts as words."""
    return ["yes" if fact else "no" for fact in facts]


# ------------------------------------------------------------------------------------------------ a whole life


def life(ranks: Ranks) -> Story:
    """Two nodes come up, serve, bear a signal and a freeze, and leave when the leader is told to."""
    story: Story = {}
    leader, follower = _come_up(ranks, story, env={"SGDEPLOY_REHEARSE_DECODE_SECONDS": "0.015"})
    with ranks.lab.inside():
        story.update({f"leader {question}": told(put(leader, question)) for question in QUESTIONS})
        story.update({f"follower {question}": told(put(follower, question)) for question in OF_A_FOLLOWER})
        follower.stop(signal.SIGTERM)
        follower.sees("waiting for the rank-0 ShutdownReq broadcast")
        story["SIGTERM to the follower: the leader's health"] = get(leader, "/health")
        _freeze(story, leader, follower)
    _drain(ranks, story, leader, follower)
    return story


def _come_up(ranks: Ranks, story: Story, *flags: str, env: Mapping[str, str] = NOTHING) -> tuple[Rank, Rank]:
    """Start both nodes under observation and wait until everything answers that ever will."""
    with polling(ranks.lab, HTTP_PORT, leader=PATHS, follower=PATHS) as polls:
        leader, follower = ranks.start(0, *flags, env=env), ranks.start(1, *flags, env=env)
        follower.sees(GREEN)
        leader.sees(READY)
        _until("200", (polls[f"leader {path}"] for path in PATHS[:4]))
    story.update({f"start: {name}": poll.sequence for name, poll in polls.items()})
    story["start: log of the leader"] = lines_in(leader.log)
    story["start: log of the follower"] = lines_in(follower.log)
    health, info, green = (polls[name] for name in ("leader /health", "leader /model_info", "follower /health"))
    well = health.first("200")
    story["start: the leader's model_info is well before its health"] = yes(info.first("200") < well)
    story["start: the follower's health is well before the leader's"] = yes(green.first("200") < well)
    story["start: a good health takes a second, a ping does not"] = yes(
        health.least("200") >= 1.0, polls["leader /ping"].least("200") < 1.0
    )
    story["start: processes"] = sorted(title for rank in (leader, follower) for title, _ in processes(rank.host))
    return leader, follower


def _freeze(story: Story, leader: Rank, follower: Rank) -> None:
    """Freeze the follower's scheduler and let it go again."""
    scheduler = follower.scheduler
    os.kill(scheduler, signal.SIGSTOP)
    answers = [put(leader, Question("GET", "/health")) for _ in range(2)]
    story["frozen: the leader's health"] = [answer.status for answer in answers]
    story["frozen: it takes its whole limit"] = yes(*(answer.seconds >= HEALTH_LIMIT for answer in answers))
    story["frozen: the leader's ping, ready, model_info"] = get(leader, "/ping", "/ready", "/model_info")
    story["frozen: a completion"] = [put(leader, COMPLETION, limit=2.0).status]
    story["frozen: the follower's health"] = get(follower, "/health")
    os.kill(scheduler, signal.SIGCONT)
    story["thawed: the leader's health, ping, ready"] = get(leader, "/health", "/ping", "/ready")


def _drain(ranks: Ranks, story: Story, leader: Rank, follower: Rank) -> None:
    """Tell the leader to leave while it works on a long request."""
    answers: list[Answer] = []

    def request() -> None:
        with ranks.lab.inside():
            answers.append(put(leader, Question("POST", "/v1/completions", LONG)))

    marks = leader.mark(), follower.mark()
    client = threading.Thread(target=request, name="a long request")
    client.start()
    leader.sees("Prefill batch", marks[0])
    paths = ("/health", "/ping", "/ready", "/model_info")
    with polling(ranks.lab, HTTP_PORT, leader=paths, follower=("/health",)) as polls:
        _until("200", (polls["leader /model_info"],))
        leader.stop(signal.SIGTERM)
        leader.sees("Draining requests", marks[0])
        with ranks.lab.inside():
            late = put(leader, COMPLETION)
        story["drain: ends"] = [leader.ended(), follower.ended()]
        _until("refused", polls.values())
    client.join(PATIENCE)
    story["drain: requests before and after the signal"] = [answers[0].status, late.status]
    story.update({f"drain: {name}": poll.sequence for name, poll in polls.items()})
    logged = leader.log[marks[0] :]
    story["drain: log of the leader"] = [name for name in lines_in(logged) if name != "warmup-answer"]
    story["drain: the leader mentions health probes"] = yes("Health check request received during" in logged)
    story["drain: log of the follower"] = lines_in(follower.log[marks[1] :])
    story["drain: left"] = ranks.left()


# ------------------------------------------------------------------------------------------------ deaths


def follower_dies(ranks: Ranks) -> Story:
    """The follower of a cluster that wants an API key is killed while it serves."""
    story: Story = {}
    key = "a-key-of-tests"
    leader, follower = ranks.start(0, "--api-key", key), ranks.start(1, "--api-key", key)
    follower.sees(GREEN)
    leader.sees(READY)
    with ranks.lab.inside():
        story["without the key"] = get(leader, *PATHS)
        story["with the key"] = [put(leader, Question("GET", path), key=key).status for path in PATHS]
        story["a completion without and with it"] = [put(leader, COMPLETION, key=word).status for word in ("", key)]
    story["the key is in the logs"] = yes(key in leader.log, key in follower.log)
    mark = leader.mark()
    with polling(ranks.lab, HTTP_PORT, leader=("/health", "/health_generate"), follower=()) as polls:
        _until("200", polls.values())
        killed = time.monotonic()
        kill_all(follower.host)
        story["ends"] = [follower.ended(), leader.ended()]
        story["the leader takes five seconds"] = yes(time.monotonic() - killed >= 5.0)
        _until("refused", polls.values())
    story.update({name: poll.sequence for name, poll in polls.items()})
    story["log of the leader"] = lines_in(leader.log[mark:])
    story["left"] = ranks.left()
    return story


def leader_dies(ranks: Ranks) -> Story:
    """A leader that came up without a warm-up, and shows metrics, is killed while it serves."""
    story: Story = {}
    leader, follower = _come_up(ranks, story, "--skip-server-warmup", "--enable-metrics")
    mark = follower.mark()
    kill_all(leader.host)
    story["ends"] = [leader.ended(), follower.ended()]
    story["log of the follower"] = lines_in(follower.log[mark:])
    story["left"] = ranks.left()
    return story


# ------------------------------------------------------------------------------------------------ in mid-load


def loading(ranks: Ranks) -> Story:
    """Leaders that nobody joins are told to stop, late and early; a follower loses its scheduler; two are misspelt."""
    story: Story = {}
    leader, follower = ranks.start(0, env=SLOW), ranks.start(1, rendezvous=NOBODY, env=SLOW)
    follower.sees("Init parallel begin")
    os.kill(follower.scheduler, signal.SIGKILL)
    leader.sees("Init parallel begin").stop(signal.SIGTERM)
    story["SIGTERM to the leader: end"] = [leader.ended()]
    story["a killed scheduler: end"] = [follower.ended()]
    story["a killed scheduler: log"] = lines_in(follower.log)
    story["both: left"] = _left(ranks, 0)
    early, number = ranks.start(0, env=SLOW), ranks.start(1, "--port", "eighty")
    early.sees(FORKED).stop(signal.SIGTERM)
    story["early SIGTERM: end"] = [early.ended()]
    story["a number that is none"] = [number.ended(), _last_line(number)]
    flag = ranks.start(1, "--no-such-flag", rendezvous=NOBODY)
    wait_until(lambda: "server_args=" in flag.log or flag.popen.poll() is not None, "a verdict on the flag", PATIENCE)
    story["an unknown flag"] = [flag.ended(), _last_line(flag)] if flag.popen.poll() is not None else ["starts"]
    kill_all(flag.host)
    story["early SIGTERM: left"] = _left(ranks, 2)
    return story


SCENARIOS: tuple[Scenario, ...] = (life, follower_dies, leader_dies, loading)


def _until(status: str, polls: Iterable[Poll]) -> None:
    for poll in polls:
        wait_until(partial(poll.came, status), f"{status} from {poll.address}{poll.path}", PATIENCE)


def _left(ranks: Ranks, count: int) -> list[str]:
    """List what is left once it is so many, or after a while: the story tells what it is."""
    with suppress(TimeoutError):
        wait_until(lambda: len(ranks.left()) == count, "what is left of the ranks", PATIENCE if count else 10.0)
    return ranks.left()


def _last_line(rank: Rank) -> str:
    return re.sub(r"^.*?: error", "error", rank.log.splitlines()[-1])
