"""`status` over fake hosts: nothing less than the whole proof is called ready."""

from __future__ import annotations

import pytest

from sgdeploy.deploy import status as status_module
from sgdeploy.deploy.status import status
from sgdeploy.errors import HostFault, RemoteError
from tests.unit.deploy.fakes import cluster, dead, make_plan
from tests.unit.deploy.test_down import running


@pytest.fixture(autouse=True)
def short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "LOOK", 0.3)


async def test_nothing_on_record_is_down() -> None:
    plan = make_plan()
    seen = await status(plan, cluster(plan), {})
    assert seen.state == "down"
    assert seen.digest == ""
    assert {row.state for row in seen.processes} == {"stopped"}


async def test_ready_takes_a_completion() -> None:
    plan = make_plan()
    hosts = running(plan)
    assert (await status(plan, hosts, {})).state == "ready"
    hosts.nodes["h1"].tokens = 0
    seen = await status(plan, hosts, {})
    assert seen.state == "degraded"
    assert "no token in it" in seen.drift[0]


async def test_a_dead_rank_is_degraded_with_its_reason() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h2"].script = [{"observations": [dead(plan.processes[1])]}]
    seen = await status(plan, hosts, {})
    assert seen.state == "degraded"
    assert [row.reason for row in seen.processes] == ["", "exit code 3"]


async def test_a_dead_rank_hides_no_other_whose_host_speaks_later() -> None:
    plan = make_plan(3)
    hosts = running(plan)
    for process, words in zip(plan.processes, (0, 1, 20), strict=True):
        hosts.nodes[process.host].script = [{"observations": []}] * words + [{"observations": [dead(process)]}]
    seen = await status(plan, hosts, {})
    assert [row.reason for row in seen.processes] == ["exit code 3"] * 3


async def test_a_rank_that_still_loads_is_starting() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h2"].script = []
    assert (await status(plan, hosts, {})).state == "starting"


async def test_an_unreachable_host_is_degraded_and_named() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.down = {"h2": HostFault("h2", "no route to host")}
    seen = await status(plan, hosts, {})
    assert seen.state == "degraded"
    assert seen.unreachable == {"h2": "no route to host"}
    assert hosts.opened == ["h1", "h2"], "what does not answer is not tried once more"
    hosts.down["h1"] = HostFault("h1", "no route to host")
    with pytest.raises(RemoteError):
        await status(plan, hosts, {})


async def test_what_runs_is_judged_by_its_own_plan_and_the_difference_is_told() -> None:
    plan = make_plan()
    hosts = running(plan)
    changed = plan.model_copy(update={"engine_version": "0.5.24"})
    seen = await status(changed, hosts, {})
    assert seen.digest == plan.digest
    assert "the profile now plans" in seen.drift[0]


async def test_who_works_on_it_is_named() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h1"].locked_by = {"user": "ann", "host": "desk", "pid": 5, "command": "sgdeploy up", "since": 0.0}
    assert (await status(plan, hosts, {})).locked_by.startswith("ann@desk (pid 5), since ")


async def test_what_lives_without_a_record_is_not_called_down() -> None:
    plan = make_plan()
    hosts = cluster(plan)
    hosts.nodes["h2"].orphans = [{"pid": 64, "title": "python3"}, {"pid": 65, "title": "sglang::scheduler"}]
    seen = await status(plan, hosts, {})
    assert seen.state == "degraded"
    what = "h2: live without a record there: pid 64 (python3) and 1 other"
    assert seen.drift == (f"{what}; records were removed or damaged; end them on the host: kill -KILL 64 65",)


async def test_a_plan_on_record_that_cannot_be_read_is_told() -> None:
    plan = make_plan()
    hosts = running(plan)
    hosts.nodes["h2"].plan = {"version": 9}
    seen = await status(plan, hosts, {})
    assert "h2: the plan on record cannot be read, it may come from another version of sgdeploy" in seen.drift[0]


async def test_hosts_that_only_the_records_know_are_asked_too() -> None:
    """A profile that names fewer hosts now must not call those stopped that run."""
    before, now = make_plan(3), make_plan(2)
    hosts = running(before)
    seen = await status(now, hosts, {})
    assert (seen.state, [row.state for row in seen.processes]) == ("ready", ["ready"] * 3)
    hosts.down = {"h3": HostFault("h3", "no route to host")}
    seen = await status(now, hosts, {})
    assert (seen.state, seen.unreachable) == ("degraded", {"h3": "no route to host"})
