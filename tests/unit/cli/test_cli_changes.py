"""`diff`, and `up` where something runs already: from the words to the use cases, and back to the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sgdeploy.cli.desk import Desk
from sgdeploy.deploy import diff as diff_case
from sgdeploy.deploy import up as up_case
from sgdeploy.deploy.events import Note, Outcome, Tell
from sgdeploy.deploy.options import UpOptions
from sgdeploy.deploy.records import Records
from sgdeploy.deploy.replan import Replan, replan
from sgdeploy.plan.model import Plan
from sgdeploy.remote.base import Connector
from tests.unit.cli.conftest import Call
from tests.unit.deploy.test_replan import on_record


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[UpOptions]:
    """Play `diff` where all of the plan runs, with a host that it does not name; give what it was asked."""
    seen: list[UpOptions] = []

    async def diff(plan: Plan, _connector: Connector, tell: Tell, options: UpOptions) -> Replan:
        seen.append(options)
        tell(Note("is told", "warning", ("a9",)))
        tell(Note("is not"))
        records = on_record(plan)
        return replan(plan, records if plan.front_door.port == 30000 else Records({}, {}))

    monkeypatch.setattr(diff_case, "diff", diff)
    return seen


def test_diff_tells_whether_what_runs_is_as_planned(call: Call, asked: list[UpOptions]) -> None:
    same = call("diff", "tiny.yaml")
    assert (same.code, same.out) == (0, "no difference: tiny runs as planned\n")
    assert same.err == "warning: a9: is told\n"
    other = call("diff", "tiny.yaml", "--set", "native.port=31000", "--json")
    assert other.code == 1
    told = json.loads(other.out)
    assert (told["same"], told["units"][0]["fate"]) == (False, "start")
    assert asked[0].also == ()


def test_up_hands_on_who_may_be_asked(call: Call, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    seen: list[UpOptions] = []

    async def up(_plan: Plan, _connector: Connector, tell: Tell, options: UpOptions) -> None:
        seen.append(options)
        options.remember()
        tell(Outcome("ready", "x", 0.1))

    monkeypatch.setattr(up_case, "up", up)
    assert call("up", "tiny.yaml").code == 0
    monkeypatch.setattr(Desk, "can_ask", True)
    inventory = home / "work" / "hosts.yaml"
    inventory.write_text(inventory.read_text().replace("a2", "a3"))
    assert call("up", "tiny.yaml", "-y").code == 0
    assert [(options.yes, options.confirm is None) for options in seen] == [(False, True), (True, False)]
    assert [host.host for options in seen for host in options.also] == ["a2"], "where it ran before is looked at"


def test_nobody_is_asked_where_nobody_sees_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert not Desk.here([]).can_ask
