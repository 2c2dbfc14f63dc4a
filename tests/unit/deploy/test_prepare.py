"""The preflight as a use case: what many hosts have in common is said once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sgdeploy.deploy import prepare
from sgdeploy.deploy.events import Note
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.facts.model import Finding
from tests.unit.deploy.fakes import Heard, cluster, make_plan


async def test_a_doubt_about_many_hosts_is_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, heard = make_plan(3), Heard()
    names = [host.host for host in plan.hosts]
    findings = [Finding("kernel", "warning", name, "old kernel", "update it") for name in names]
    findings.append(Finding("clock", "warning", "h2", "late", "wait"))
    monkeypatch.setattr(prepare, "check", lambda *_: findings)
    monkeypatch.setattr(prepare, "parse", lambda *_, **__: SimpleNamespace())
    await prepare.preflight(Fleet(dict(cluster(plan).nodes)), plan, heard)
    notes = [event for event in heard.events if isinstance(event, Note)]
    assert [(note.message, note.hosts) for note in notes] == [("old kernel", ("h1", "h2", "h3")), ("late", ("h2",))]
