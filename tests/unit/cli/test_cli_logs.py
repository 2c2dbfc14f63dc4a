"""``sgdeploy logs``: from its words to what is asked of the hosts, and to its exit code."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import typer

from sgdeploy.cli.options import moment
from sgdeploy.deploy import logs as logs_case
from sgdeploy.deploy.events import Note, Tell
from sgdeploy.deploy.hostlogs import Grep, LogLine, LogsOptions, Show
from sgdeploy.errors import CancelledRunError, HostFault, RemoteError, SgdeployError
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Connector
from tests.unit.cli.conftest import Call


@dataclass
class Hosts:
    """Stands for the use case: remembers what it was asked, and shows two lines."""

    asked: list[LogsOptions] = field(default_factory=list)
    end: SgdeployError | None = None

    async def logs(self, plan: Plan, _connector: Connector, show: Show, tell: Tell, options: LogsOptions) -> None:
        """Play the use case."""
        self.asked.append(options)
        lines: Sequence[LogLine] = [LogLine(process, 5.0, f"hello of {process.host}") for process in plan.processes]
        await show(lines)
        tell(Note("nothing of native/a3: it has written no log"))
        if self.end is not None:
            raise self.end


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Put it in the place of the use case."""
    made = Hosts()
    monkeypatch.setattr(logs_case, "logs", made.logs)
    return made


def test_lines_go_to_stdout_and_all_else_to_stderr(call: Call, hosts: Hosts) -> None:
    done = call("logs", "tiny.yaml")
    assert (done.code, done.out) == (0, "a1 native | hello of a1\na2 native | hello of a2\n")
    assert done.err == "note: nothing of native/a3: it has written no log\n"
    told = call("logs", "tiny.yaml", "--json")
    assert [json.loads(line)["host"] for line in told.out.splitlines()] == ["a1", "a2"]
    assert hosts.asked == [LogsOptions(tail=20)] * 2


def test_hosts_that_are_missing_are_told_at_the_end(call: Call, hosts: Hosts) -> None:
    hosts.end = RemoteError("logs of 1 of 2 hosts are not among these", [HostFault("a2", "no route")])
    done = call("logs", "tiny.yaml")
    assert done.code == 5
    assert "hello of a1" in done.out
    assert "a2: no route" in done.err


def test_ctrl_c_ends_it_without_a_word(call: Call, hosts: Hosts) -> None:
    hosts.end = CancelledRunError("interrupted")
    done = call("logs", "tiny.yaml", "-f")
    assert (done.code, "interrupted" in done.err, hosts.asked[0].follow) == (130, False, True)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--tail", "3", "--only", "a1", "--only", "native"], LogsOptions(only=("a1", "native"), tail=3)),
        (["--tail", "all", "--all"], LogsOptions(part="all")),
        (["--tail", "0", "-f"], LogsOptions(tail=0, follow=True)),
        (["-p"], LogsOptions(part="previous", tail=20)),
        (["--grep", "a|b"], LogsOptions(grep=Grep("a|b"))),
        (["--grep", "", "-v", "-i", "--tail", "5"], LogsOptions(grep=Grep("", ignore_case=True, invert=True), tail=5)),
    ],
)
def test_words_become_what_is_wanted(call: Call, hosts: Hosts, words: list[str], wanted: LogsOptions) -> None:
    assert call("logs", "tiny.yaml", *words).code == 0
    assert hosts.asked == [wanted]


def test_since_means_all_lines_from_then_on(call: Call, hosts: Hosts) -> None:
    assert call("logs", "tiny.yaml", "--since", "10m").code == 0
    assert hosts.asked[0].since == pytest.approx(time.time() - 600, abs=5)
    assert hosts.asked[0].tail is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--tail", "-1"], "must be a number of lines, or all"),
        (["--since", "yesterday"], "must be a duration such as 10m, or a time such as 22:15"),
        (["--grep", "("], "--grep '(' is no regular expression"),
        (["--grep", "a{99999999999}"], "--grep 'a{99999999999}' is no regular expression"),
        (["--grep", "(" * 3000 + ")" * 3000], "is no regular expression"),
        (["-i"], "--ignore-case and --invert-match are about --grep"),
        (["--previous", "--follow"], "--previous and --follow contradict each other"),
        (["--previous", "--all"], "--previous and --all contradict each other"),
    ],
)
def test_wrong_words_touch_no_host(call: Call, hosts: Hosts, words: list[str], why: str) -> None:
    done = call("logs", "tiny.yaml", *words)
    assert done.code == 2
    assert why in done.err
    assert hosts.asked == []


def test_times_of_the_command_line() -> None:
    now = time.time()
    assert moment("90") == pytest.approx(now - 90, abs=5)
    assert moment("2026-11-29T22:15:00Z") == 1795990500
    assert moment("2026-11-29 23:15+01:00") == 1795990500
    assert moment("2026-11-29") == time.mktime((2026, 11, 29, 0, 0, 0, 0, 0, -1))
    assert now - 86400 <= moment("22:15") <= now
    assert time.localtime(moment("22:15:30"))[3:6] == (22, 15, 30)
    with pytest.raises(typer.BadParameter):
        moment("25:00")


@pytest.mark.filterwarnings("error::FutureWarning")
def test_a_pattern_that_python_wants_to_read_otherwise_one_day_is_searched_as_it_is(call: Call, hosts: Hosts) -> None:
    done = call("logs", "tiny.yaml", "--grep", "[[:alpha:]")
    assert done.code == 0
    assert "Warning" not in done.err
    assert hosts.asked[0].grep == Grep("[[:alpha:]")
