"""Who did what, which plans are kept, and what a rollback goes back to."""

from __future__ import annotations

import json

import pytest

from sgdeploy.deploy.down import down
from sgdeploy.deploy.events import Note
from sgdeploy.deploy.fleet import Fleet
from sgdeploy.deploy.history import KEPT, Entry, History, entries, once_ready, short
from sgdeploy.deploy.past import earlier, merged, past
from sgdeploy.deploy.up import up
from sgdeploy.deploy.wait import wait
from sgdeploy.errors import HostFault, RemoteError, StartupError, StateError
from sgdeploy.plan.model import Plan, SecretRef
from sgdeploy.remote.base import NodeError
from tests.unit.deploy.fakes import OWNER, FakeConnector, Heard, cluster, dead, down_options, make_plan, up_options
from tests.unit.deploy.test_replan import changed

pytestmark = pytest.mark.usefixtures("no_preflight")


def said(hosts: FakeConnector, name: str = "h1") -> list[str]:
    return [entry.what for entry in entries("".join(hosts.nodes[name].audited))]


def variant(plan: Plan, number: int) -> Plan:
    return changed(plan, "native", env={"NUMBER": str(number)})


async def test_a_life_is_on_record_with_who_and_when() -> None:
    plan = make_plan()
    hosts, digest = cluster(plan), short(plan.digest)
    await up(plan, hosts, Heard(), up_options())
    await up(plan, hosts, Heard(), up_options())
    after = variant(plan, 1)
    await up(after, hosts, Heard(), up_options(yes=True))
    await down(after, hosts, Heard(), down_options())
    assert said(hosts) == [
        f"up: starts native (plan {digest}, 2 hosts)",
        f"up: plan {digest} is ready",
        f"up: restarts native (plan {short(after.digest)}, 2 hosts)",
        "up: stopped native",
        f"up: plan {short(after.digest)} is ready",
        "down",
    ]
    (first, *_) = entries(hosts.nodes["h1"].audited[0].strip())
    assert (first.when, first.who) == ("2026-11-29T17:00:00Z", "op@laptop (pid 42)")
    assert said(hosts, "h2")[0] == said(hosts)[0], "who was touched knows by whom"
    found = await past(plan, hosts, plans=True)
    assert (found.current, [*found.kept]) == (None, [after, plan])
    assert earlier(found, "demo") == after


async def test_a_failure_is_on_record_and_its_plan_is_not_kept() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].script = [{"observations": [dead(plan.processes[1])]}]
    with pytest.raises(StartupError):
        await up(plan, hosts, Heard(), up_options())
    assert said(hosts)[1].startswith("up: failed: demo/native/h2: exit code 3")
    assert hosts.nodes["h1"].kept == {}
    with pytest.raises(StateError, match="no plan of demo but the present one was ready"):
        earlier(await past(plan, hosts, plans=True), "demo")


async def test_what_wait_has_proven_is_kept_as_well() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    await up(plan, hosts, Heard(), up_options(wait=False))
    assert hosts.nodes["h1"].kept == {}
    await wait(plan, hosts, Heard(), up_options(recorded=True))
    assert [*hosts.nodes["h1"].kept] == [short(plan.digest)]
    assert said(hosts)[-1] == f"wait: plan {short(plan.digest)} is ready"


async def test_no_more_than_the_last_ten_are_kept() -> None:
    plan, heard = make_plan(), Heard()
    hosts = cluster(plan)
    history = History(Fleet(dict(hosts.nodes)), plan.lead_host)
    plans = [variant(plan, number) for number in range(KEPT + 3)]
    for each in plans:
        await history.ready(each, OWNER, "up", heard)
        await history.ready(each, OWNER, "up", heard)
    assert [*hosts.nodes["h1"].kept] == [short(each.digest) for each in plans[3:]]
    assert len(hosts.nodes["h1"].audited) == len(plans)
    await history.ready(plans[3], OWNER, "up", heard)
    assert once_ready(await history.read())[:2] == [short(plans[3].digest), short(plans[-1].digest)]
    assert len(hosts.nodes["h1"].kept) == KEPT


async def test_a_plan_that_cannot_be_kept_is_told_and_holds_nothing_up() -> None:
    plan, heard = make_plan(), Heard()
    hosts = cluster(plan)
    hosts.nodes["h1"].refuse["prepare"] = NodeError("h1", "no-space", "no space left on /var", {})
    await History(Fleet(dict(hosts.nodes)), plan.lead_host).ready(plan, OWNER, "up", heard)
    (note,) = heard.events
    assert isinstance(note, Note)
    assert "cannot be kept for `sgdeploy rollback`: no space left" in note.message
    assert hosts.nodes["h1"].audited == []


async def test_a_secret_is_never_stored() -> None:
    plan = changed(make_plan(), "native", env={"T": SecretRef.model_validate({"secret": "env:T"})})
    hosts = cluster(plan)
    await up(plan, hosts, Heard(), up_options(secrets={"T": "s3cr3t"}))
    node = hosts.nodes["h1"]
    assert "env:T" in json.dumps(node.kept)
    assert "s3cr3t" not in json.dumps([node.kept, node.audited])


async def test_back_and_forth() -> None:
    plan = make_plan()
    first, second = plan, variant(plan, 2)
    hosts = cluster(plan)
    await up(first, hosts, Heard(), up_options())
    await up(second, hosts, Heard(), up_options(yes=True))
    found = await past(second, hosts, plans=True)
    assert earlier(found, "demo") == first
    await up(first, hosts, Heard(), up_options(yes=True, verb="rollback"))
    assert said(hosts)[-1] == f"rollback: plan {short(first.digest)} is ready"
    again = await past(second, hosts, plans=True)
    assert earlier(again, "demo") == second
    assert earlier(again, "demo", short(first.digest)[:6]) == first
    with pytest.raises(StateError, match="no plan 00 of demo is kept") as caught:
        earlier(again, "demo", "00")
    assert short(first.digest) in (caught.value.hint or "")
    with pytest.raises(StateError, match="more than one plan of demo begins with"):
        earlier(again, "demo", "")


def led_by(plan: Plan, leader: str) -> Plan:
    """Give a plan with another first leader."""
    processes = [p.model_copy(update={"leader": p.host == leader}) for p in plan.processes]
    return plan.model_copy(update={"processes": tuple(processes)})


async def test_what_was_ready_under_another_lead_is_not_lost() -> None:
    first, hosts = make_plan(), cluster(make_plan())
    second = led_by(first, "h2")
    await up(first, hosts, Heard(), up_options())
    await down(first, hosts, Heard(), down_options())
    for name, node in cluster(second).nodes.items():
        hosts.nodes[name].script = node.script
    await up(second, hosts, Heard(), up_options())
    found = await past(second, hosts, plans=True)
    assert [*found.kept] == [second, first]
    assert earlier(found, "demo") == first
    assert [entry.what for entry in found.entries].count("down") == 1, "it stands on both hosts"


async def test_a_host_that_cannot_be_asked_for_its_history_is_named() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.down = {"h2": HostFault("h2", "no route to host")}
    with pytest.raises(StateError) as caught:
        earlier(await past(plan, hosts, plans=True), "demo")
    assert "not asked, since they cannot be reached: h2" in (caught.value.hint or "")


def test_an_action_on_many_hosts_is_told_once_and_a_repeated_one_as_often_as_it_was() -> None:
    def at(second: int, what: str, who: str = "a@b (pid 1)") -> Entry:
        return Entry(f"2026-11-29T17:00:{second:02}Z", who, what)

    lead = [at(1, "up"), at(5, "watch: starts"), at(9, "watch: starts"), at(10, "down", "c@d (pid 2)")]
    other = [at(2, "up"), at(6, "watch: starts"), at(8, "down")]
    assert merged([other, lead]) == (other[0], lead[1], other[2], lead[2], lead[3])
    assert merged([]) == ()


async def test_the_host_that_keeps_the_history_is_needed() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.down = {"h1": HostFault("h1", "no route to host")}
    with pytest.raises(RemoteError, match="the host that keeps the history cannot be reached"):
        await past(plan, hosts)


def test_lines_of_others_and_damaged_ones_are_passed_over() -> None:
    text = (
        "f (pid 3): cut\n2026-11-29T17:18:32Z op@lap (pid 4): up: plan 0123456789abcdef is ready\n\x00\n"
        "2026-11-29T17:18:33Z op@lap (pid 5): down router\n"
    )
    ready, other = entries(text)
    assert ready == Entry("2026-11-29T17:18:32Z", "op@lap (pid 4)", "up: plan 0123456789abcdef is ready")
    assert (ready.ready, ready.plan, other.ready, other.plan) == (True, "0123456789abcdef", False, None)
    assert ready.to_json()["plan"] == "0123456789abcdef"


async def test_a_plan_that_is_kept_in_the_place_of_another_is_none() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h1"].kept = {"0123456789abcdef": plan.to_json(), short(plan.digest): plan.to_json()}
    kept = History(Fleet(dict(hosts.nodes)), plan.lead_host)
    assert await kept.plan("0123456789abcdef") is None
    assert await kept.plan(short(plan.digest)) == plan
