"""How the helper is started, spoken to, and how it ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sgdeploy.remote.channel import packed_helper
from tests.node.deployment import Deployment
from tests.node.wire import PATIENCE, Helper, RefusedError, living, patched, wait_for

Helpers = Callable[..., Helper]


def test_it_says_who_and_where_it_is(node: Helper) -> None:
    assert node.hello["protocol"] == 1
    assert node.hello["pid"] == node.process.pid
    assert node.hello["uid"] == os.getuid()
    assert node.hello["python"] == ".".join(map(str, sys.version_info[:3]))
    assert abs(node.hello["time"] - time.time()) < PATIENCE


def test_noise_of_a_login_shell_comes_before_the_greeting(helpers: Helpers) -> None:
    noisy = "echo 'Welcome to n01'; printf 'no line end\\n'; exec " + '"$@"'
    helper = helpers(before=("sh", "-c", noisy, "sh"))
    assert helper.noise == [b"Welcome to n01\n", b"no line end\n"]
    assert helper.call("ping")["time"] > 0


def test_the_bootstrap_survives_single_quotes_in_a_shell(helpers: Helpers) -> None:
    joined = 'for word; do line="$line $(printf %s "$word" | sed "s/.*/\'&\'/")"; done; eval exec "$line"'
    assert helpers(before=("sh", "-c", joined, "sh")).call("ping")["time"] > 0


def test_an_unknown_operation_is_refused(node: Helper) -> None:
    with pytest.raises(RefusedError, match=r"unknown-op.*'dance'"):
        node.call("dance")


def test_a_missing_argument_is_named(node: Helper) -> None:
    with pytest.raises(RefusedError, match=r"bad-request.*run_dir"):
        node.call("records")


@pytest.mark.parametrize("line", [b"{broken", b"[1, 2]", b'"text"', b"\xff\xfe"])
def test_a_line_that_is_no_request_is_answered_and_survived(node: Helper, line: bytes) -> None:
    assert node.raw(line)["error"]["code"] == "bad-request"
    assert node.call("ping")["time"] > 0


def test_requests_run_side_by_side(deployment: Deployment) -> None:
    deployment.run(a="exec sleep 300")
    slow = deployment.helper.stream("await_gone", run_dir=str(deployment.run_dir), ids=None, timeout=60)
    begin = time.monotonic()
    deployment.helper.call("ping")
    assert time.monotonic() - begin < 5
    slow.cancel()
    assert slow.next() is None
    assert [survivor["title"] for survivor in slow.result["survivors"]] == ["sleep 300"]


@pytest.mark.parametrize("tag", ["", "another-"])
def test_a_fault_of_its_own_names_module_and_line(helpers: Helpers, tag: str) -> None:
    """Also where it came as source, and where the fault shows deep inside the standard library."""
    line = '    return {"listening": listening}\n'
    broken = patched((line, "    return __import__('json').loads('{')\n"))
    wrong = broken["ports"].decode().split("\n").index("    return __import__('json').loads('{')") + 1
    with pytest.raises(
        RefusedError, match=rf"internal: the node helper failed at ports\.py line {wrong}: JSONDec"
    ) as told:
        helpers(modules=broken, tag=tag).call("ports", ports=[])
    assert told.value.details == {"module": "ports.py", "line": wrong}


def test_a_keeper_comes_as_source_too(helpers: Helpers, deployment: Deployment) -> None:
    deployment.helper = helpers(tag="another-")
    deployment.run(a="exec sleep 300")
    assert living(deployment.keeper("a"))


def test_the_end_of_stdin_ends_it_and_nothing_else(deployment: Deployment) -> None:
    pid = deployment.run(a="exec sleep 300")["a"]
    assert deployment.helper.close() == 0
    assert living(pid)
    assert living(deployment.keeper("a"))


def test_the_end_of_stdin_ends_it_in_the_middle_of_a_watch(deployment: Deployment) -> None:
    deployment.run(a="exec sleep 300")
    watch = deployment.helper.stream("watch", run_dir=str(deployment.run_dir))
    assert watch.next() is not None
    assert deployment.helper.close() == 0


def test_a_reader_that_is_gone_ends_it(helpers: Helpers) -> None:
    nobody_reads = ("sh", "-c", '"$@" | head -n 1', "sh")
    helper = helpers(before=nobody_reads)
    helper.stream("ping")
    wait_for(lambda: not living(helper.pid), "the end of a helper that nobody hears")


def test_hangup_and_interrupt_do_not_end_it(node: Helper) -> None:
    for number in (signal.SIGHUP, signal.SIGINT):
        os.kill(node.pid, number)
        assert node.call("ping")["time"] > 0


def test_silence_ends_it(helpers: Helpers) -> None:
    helper = helpers(modules=patched(("SILENCE = 60.0", "SILENCE = 1.5")))
    assert helper.process.wait(PATIENCE) == 0


def test_requests_keep_it_from_ending_by_silence(helpers: Helpers) -> None:
    helper = helpers(modules=patched(("SILENCE = 60.0", "SILENCE = 1.5")))
    for _ in range(6):
        time.sleep(0.5)
        assert helper.call("ping")["time"] > 0


def test_what_waited_while_it_stood_still_is_not_done(helpers: Helpers, tmp_path: Path) -> None:
    """Its controller has given it up by then, and another one may have taken over."""
    helper = helpers(modules=patched(("FROZEN = 30.0", "FROZEN = 0.5")))
    os.kill(helper.pid, signal.SIGSTOP)
    helper.stream("prepare", run_dir=str(tmp_path / "demo" / "n01"), plan={}, scripts={"a": "exit 0"})
    time.sleep(1.6)  # what is waited for is that nothing happens: longer than the bound, and than a tick of its clock
    os.kill(helper.pid, signal.SIGCONT)
    assert helper.process.wait(PATIENCE) == 1
    assert list(tmp_path.iterdir()) == []


def test_it_is_small_enough_for_a_slow_line(node: Helper) -> None:
    limit = 192 * 1024  # a second and a half at 1 Mbit/s
    assert len(packed_helper()) < limit
    assert shlex.quote(json.dumps(node.hello))
