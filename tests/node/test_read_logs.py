"""Lines of logs as they come from a host: which ones, in which order, in how much memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from sgdeploy.deploy.hostlogs import SILENCE
from sgdeploy.node.readlogs import ReadLogs
from tests.node.deployment import NEXT_LAUNCH, Deployment, process
from tests.node.test_watch import memory_of
from tests.node.wire import Helper, Json, RefusedError, Stream, patched, wait_for

Helpers = Callable[..., Helper]


def stamp(seconds: float, rank: int = 0) -> str:
    """Give a time as the engine writes it."""
    return time.strftime(f"[%Y-%m-%d %H:%M:%S TP{rank}]", time.localtime(seconds))


def written(deployment: Deployment, **logs: str) -> None:
    """Put logs where a run would have left them."""
    folder = deployment.run_dir / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    for key, text in logs.items():
        (folder / f"{key}.log").write_text(text)


def reading(deployment: Deployment, *keys: str, **more: Any) -> Stream:
    """Ask for the logs of some processes."""
    return deployment.helper.stream(
        "read_logs", run_dir=str(deployment.run_dir), processes=[process(key) for key in keys or ("a",)], **more
    )


def told(events: Stream) -> tuple[list[str], Json]:
    """Give the lines of the history as ``a: text``, and what the end of it says."""
    lines: list[str] = []
    while (event := events.next()) is not None:
        if "caught_up" in event:
            return lines, event
        lines += [f"{ident.partition('/')[2]}: {text}" for ident, _, text in event.get("lines", ())]
    raise AssertionError(f"it ended without saying so, after {lines}")


def lines(deployment: Deployment, *keys: str, **more: Any) -> list[str]:
    """Give the lines of the history."""
    return told(reading(deployment, *keys, **more))[0]


def next_lines(stream: Stream) -> list[str]:
    """Give the texts that come next."""
    while (event := stream.next()) is not None:
        if "lines" in event:
            return [text for _, _, text in event["lines"]]
    raise AssertionError("it ended")


def test_logs_are_merged_by_time_and_what_has_none_stays_with_the_line_before(deployment: Deployment) -> None:
    one, two, three = (stamp(1_800_000_000 + n) for n in range(3))
    written(
        deployment, a=f"{one} first\n  its trace\n{three} third\n", b=f"before any time\n{two} second\n  and more\n"
    )
    assert lines(deployment, "a", "b") == [
        "b: before any time",
        f"a: {one} first",
        "a:   its trace",
        f"b: {two} second",
        "b:   and more",
        f"a: {three} third",
    ]


def test_times_with_a_zone_and_of_utc_are_read_as_such(helpers: Helpers, deployment: Deployment) -> None:
    utc = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_800_000_000))
    moved = time.strftime("%Y-%m-%dT%H:%M:%S.250+05:30", time.gmtime(1_800_000_000 + 19800))
    written(deployment, a=f"\x1b[2m{utc}\x1b[0m INFO router\n{moved} other\n[2026-99-99 99:99:99] no time at all\n")
    deployment.helper = helpers(env={"TZ": "HERE-8"})
    times = {}
    for router in (True, False):
        processes = [process("a", utc=router)]
        stream = deployment.helper.stream("read_logs", run_dir=str(deployment.run_dir), processes=processes)
        times[router] = [when for event in stream for _, when, _ in event.get("lines", ())]
    assert times[True] == [1_800_000_000, 1_800_000_000.25, 1_800_000_000.25]
    assert times[False] == [1_800_000_000 - 8 * 3600, *times[True][1:]]


def test_the_tail_counts_lines_and_with_a_pattern_those_that_match(deployment: Deployment) -> None:
    written(deployment, a="".join(f"{'even' if n % 2 == 0 else 'odd'} {n}\n" for n in range(20_000)) + "the end")
    assert lines(deployment, tail=2) == ["a: odd 19999", "a: the end"]
    assert lines(deployment, tail=0) == []
    assert len(lines(deployment, tail=15_000)) == 15_000
    assert len(lines(deployment)) == 20_001
    assert lines(deployment, tail=2, grep={"pattern": "EVEN", "ignore_case": True}) == [
        "a: even 19996",
        "a: even 19998",
    ]
    assert lines(deployment, grep={"pattern": "odd|even", "invert": True}) == ["a: the end"]
    assert lines(deployment, tail=3, grep={"pattern": "nobody"}) == []


@pytest.mark.parametrize("filler", ["", "x" * 200_000 + "\n"])
def test_lines_since_a_time_are_found_in_a_long_log(deployment: Deployment, filler: str) -> None:
    """Also where a line without a time is longer than what is looked at together."""
    begin = 1_800_000_000
    text = "".join(f"{stamp(begin + n)} step {n}\n" + (filler if n in {500, 5999} else "") for n in range(10_000))
    written(deployment, a=text)
    found = [line for line in lines(deployment, since=begin + 6000) if "xxx" not in line]
    assert (found[0][-10:], len(found)) == (" step 6000", 4000)
    assert lines(deployment, since=begin + 20_000) == []
    assert len(lines(deployment, since=begin + 6000, tail=10)) == 10


def test_a_log_without_times_counts_whole_if_it_was_written_to_since(deployment: Deployment) -> None:
    written(deployment, a="one\ntwo\n")
    assert lines(deployment, since=time.time() - 60) == ["a: one", "a: two"]
    assert lines(deployment, since=time.time() + 60) == []


def test_a_run_is_told_from_the_one_before_also_after_clearing(deployment: Deployment) -> None:
    written(deployment, a="long ago\n")
    for text, launch in (("first", {}), ("second", {"id": NEXT_LAUNCH})):
        deployment.prepare(a=f"echo {text}")
        deployment.start(
            "a", launch={"id": "x", "deployment": "demo", "host": "n01", "digest": "d", "owner": {}, **launch}
        )
        wait_for(lambda: deployment.record("a")["exit"], "the end of a")
        while_on_record = lines(deployment, tail=5)
        deployment.call("clear")
        assert lines(deployment) == while_on_record == [f"a: {text}"]
    assert lines(deployment, part="previous") == ["a: first"]
    assert lines(deployment, part="all") == ["a: long ago", "a: first", "a: second"]
    deployment.run(a="echo third")
    deployment.wait_log("a", "third")
    assert lines(deployment, part="previous") == ["a: second"]
    (deployment.run_dir / "logs" / "a.log").write_text("cut\n")
    assert lines(deployment) == ["a: cut"]


def test_who_has_no_log_or_no_earlier_run_is_told(deployment: Deployment) -> None:
    written(deployment, a="here\n")
    found, end = told(reading(deployment, "a", "b"))
    assert (found, end["missing"]) == (["a: here"], {"demo/b": "it has written no log"})
    assert told(reading(deployment, part="previous"))[1]["missing"] == {"demo/a": "no earlier run is on record"}


def test_what_is_added_is_followed(deployment: Deployment) -> None:
    written(deployment, a="old\nunfini")
    log, late = (deployment.run_dir / "logs" / f"{key}.log" for key in "ab")
    stream = reading(deployment, "a", "b", follow=True, tail=5)
    assert told(stream)[0] == ["a: old"]
    with log.open("a") as out:
        out.write("shed\nnew, and longer than what comes after the cut\n")
    assert next_lines(stream) == ["unfinished", "new, and longer than what comes after the cut"]
    late.write_text("a log that was not there\n")
    assert next_lines(stream) == ["a log that was not there"]
    os.truncate(log, 0)
    with log.open("a") as out:
        out.write("cut\n10%\r20%\rand no end")
    assert next_lines(stream) == ["cut"]
    assert next_lines(stream) == ["and no end"]
    log.rename(log.with_suffix(".old"))
    log.write_text("replaced\n")
    assert next_lines(stream) == ["replaced"]
    stream.cancel()
    assert stream.next() is None


def test_only_new_lines_that_match_are_followed(deployment: Deployment) -> None:
    written(deployment, a="error: old\n")
    stream = reading(deployment, follow=True, tail=0, grep={"pattern": "error"})
    assert told(stream)[0] == []
    with (deployment.run_dir / "logs" / "a.log").open("a") as out:
        out.write("fine\nerror: new\n")
    assert next_lines(stream) == ["error: new"]


@pytest.mark.parametrize("more", [{"tail": 20}, {"grep": {"pattern": "end"}, "tail": 20}, {"since": 1.0}])
def test_a_gigabyte_without_a_line_end_costs_no_memory(deployment: Deployment, more: Json) -> None:
    written(deployment, a="begin\n")
    log = deployment.run_dir / "logs" / "a.log"
    os.truncate(log, 1 << 30)
    with log.open("a") as out:
        out.write("\nthe end\n")
    found = lines(deployment, **more)
    assert found[-1] == "a: the end"
    assert all(len(line) < 70_000 for line in found)
    assert memory_of(deployment.helper.pid) < 48


def test_no_more_is_sent_than_there_is_room_for(deployment: Deployment) -> None:
    written(deployment, a="".join(f"{n} {'x' * 1000}\n" for n in range(1000)))
    stream = reading(deployment, window=2)
    first = [stream.next(), stream.next()]
    with pytest.raises(AssertionError, match="no message"):
        stream.next(0.7)
    assert deployment.helper.call("ping")["time"] > 0
    deployment.helper.call("took", target=stream.ident)
    first.append(stream.next())
    assert [event["lines"][0][2].split()[0] for event in first if event] == ["0", "31", "62"]
    stream.cancel()
    with pytest.raises(RefusedError, match="cancelled"):
        stream.next()


def test_keys_stay_on_the_host(deployment: Deployment) -> None:
    written(deployment, a="server_args={'api_key': 's3cr3t', 'x': 1}\n")
    assert lines(deployment) == ["a: server_args={'api_key': '[hidden]', 'x': 1}"]
    assert lines(deployment, grep={"pattern": "s3cr3t"}) == []


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(" * 3000 + ")" * 3000])
def test_what_is_no_regular_expression_is_refused(deployment: Deployment, pattern: str) -> None:
    with pytest.raises(RefusedError, match=r"bad-request: .* is no regular expression"):
        lines(deployment, grep={"pattern": pattern})


def test_a_search_ends_before_a_silent_host_is_given_up() -> None:
    assert ReadLogs.SEARCH + ReadLogs.BEAT < SILENCE


def test_a_pattern_that_never_ends_ends_the_helper(helpers: Helpers, deployment: Deployment) -> None:
    """Nobody could tell it to stop, and it would outlive its controller."""
    written(deployment, a="a" * 60 + "b\n")
    deployment.helper = helpers(modules=patched(("    SEARCH = 5\n", "    SEARCH = 1\n")))
    reading(deployment, grep={"pattern": "^(a+)+$"})
    assert deployment.helper.process.wait(20) == -signal.SIGALRM


def test_a_slow_reader_is_no_endless_pattern(helpers: Helpers, deployment: Deployment) -> None:
    written(deployment, a="".join(f"{n} {'x' * 1000}\n" for n in range(1000)))
    deployment.helper = helpers(modules=patched(("    SEARCH = 5\n", "    SEARCH = 1\n")))
    stream = reading(deployment, window=1, grep={"pattern": "x"})
    stream.next()
    time.sleep(2.0)
    deployment.helper.call("took", target=stream.ident)
    assert stream.next() is not None


@pytest.mark.parametrize("where", ["{outside}", "../../outside.log", "/etc/passwd"])
def test_only_what_is_in_the_folder_of_the_logs_is_a_log(deployment: Deployment, where: str) -> None:
    """Who can write a record must not read with our rights what is not his."""
    outside = deployment.run_dir.parent / "outside.log"
    deployment.run(a="echo well; exec sleep 300")
    outside.write_text("nobody's business\n")
    deployment.alter("a", log=where.format(outside=outside), offset=0)
    assert lines(deployment) == []
    assert deployment.call("logs", ids=["demo/a"])["logs"]["demo/a"]["lines"] == []
    deployment.kill_all()
