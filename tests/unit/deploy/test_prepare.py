"""The preflight as a use case: what many hosts have in common is said once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sgdeploy.deploy import prepare
from sgdeploy.deploy.events import Note
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.errors import PreflightError
from sgdeploy.facts.model import Finding
from tests.unit.deploy.fakes import Heard, cluster, make_plan


async def test_a_doubt_about_many_hosts_is_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, heard = make_plan(3), Heard()
    names = [host.host for host in plan.hosts]
    findings = [Finding("kernel", "warning", name, "old kernel", "update it") for name in names]
    findings.append(Finding("clock", "warning", "h2", "late", "wait"))
    monkeypatch.setattr(prepare, "check", lambda *_: findings)
    monkeypatch.setattr(prepare, "parse", lambda *_, **__: SimpleNamespace())
    await prepare.preflight(Fleet(dict(cluster(plan).nodes)), plan, heard, {})
    notes = [event for event in heard.events if isinstance(event, Note)]
    assert [(note.message, note.hosts) for note in notes] == [("old kernel", ("h1", "h2", "h3")), ("late", ("h2",))]


async def test_facts_that_no_kernel_gives_are_the_hosts_fault_and_not_ours() -> None:
    plan = make_plan(2)
    hosts = cluster(plan)
    hosts.nodes["h2"].gathered = {"files": {"/proc/sys/net/ipv4/ip_local_reserved_ports": "many"}}
    with pytest.raises(PreflightError, match="the facts of 1 host cannot be read") as caught:
        await prepare.preflight(Fleet(dict(hosts.nodes)), plan, Heard(), {})
    assert [fault.host for fault in caught.value.faults] == ["h2"]
    assert "'many'" in caught.value.faults[0].reason


PORT = {"address": "127.0.1.2", "port": 30000, "command": None}


async def strangers(monkeypatch: pytest.MonkeyPatch, *answers: list[dict[str, object]]) -> tuple[object, int]:
    """Run the preflight of a host that says one thing after the other; gives what counts against it, and the looks."""
    plan, seen, looks = make_plan(2), list[object](), 0
    node = (hosts := cluster(plan)).nodes["h2"]

    def answer(op: str) -> None:
        nonlocal looks
        if op == "ports":
            node.listening = list(answers[min(looks, len(answers) - 1)])
            looks += 1

    def check(_plan: object, _facts: object, listening: dict[str, object]) -> list[Finding]:
        seen.append(listening["h2"])
        return []

    node.on_call = answer
    monkeypatch.setattr(prepare, "LOOK", 0.01)
    monkeypatch.setattr(prepare, "CLOSING", 0.1)
    monkeypatch.setattr(prepare, "check", check)
    monkeypatch.setattr(prepare, "parse", lambda *_, **__: SimpleNamespace())
    await prepare.preflight(Fleet(dict(hosts.nodes)), plan, Heard(), {})
    return seen[0], looks


async def test_a_port_of_a_process_that_has_just_ended_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await strangers(monkeypatch, [{**PORT, "pid": None}], []) == ([], 2)


async def test_a_port_that_nobody_can_name_for_seconds_is_a_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {**PORT, "pid": None}
    found, looks = await strangers(monkeypatch, [taken])
    assert (found, looks > 1) == ([taken], True)


async def test_a_port_of_a_living_stranger_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {**PORT, "pid": 12}
    assert await strangers(monkeypatch, [taken], []) == ([taken], 1)
