"""What becomes of each unit when a plan meets what is on record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sgdeploy.deploy.records import HostRecords, RecordedProcess, Records
from sgdeploy.deploy.replan import Replan, UnitFate, replan
from sgdeploy.deploy.task import make_task
from sgdeploy.plan.model import Health, Hugepages, Plan, Process
from tests.unit.deploy.fakes import make_plan
from tests.unit.deploy.test_parts import with_router


def on_record(plan: Plan, ended: Mapping[str, Mapping[str, int] | None] | None = None, **changes: Any) -> Records:
    """Give the records of a plan of which everything runs, but what has ended."""
    ended = ended or {}
    hosts = {}
    for host in plan.hosts:
        rows = tuple(
            RecordedProcess(
                id=process.id,
                host=host.host,
                pid=7,
                alive=process.id not in ended,
                exit=ended.get(process.id),
                pids=() if process.id in ended else (7, 8),
                seconds=9.0,
                log="x.log",
                **changes,
            )
            for process in plan.on_host(host.host)
        )
        hosts[host.host] = HostRecords(host.host, {"id": "l1"}, plan, rows)
    return Records(hosts, {})


def changed(plan: Plan, unit: str, **update: Any) -> Plan:
    """Give a plan in which all processes of a unit have some fields changed."""
    processes = [p.model_copy(update=update) if p.unit == unit else p for p in plan.processes]
    return plan.model_copy(update={"processes": tuple(processes)})


def fates(found: Replan) -> dict[str, str]:
    return {unit.unit: unit.fate for unit in found.units}


def of(found: Replan, unit: str) -> UnitFate:
    return next(each for each in found.units if each.unit == unit)


def test_where_nothing_is_on_record_all_of_it_starts() -> None:
    plan = with_router()
    found = replan(plan, Records({}, {}))
    assert fates(found) == {"prefill": "start", "decode": "start", "router": "start"}
    assert (found.runs, found.same, found.disturbs) == (False, False, False)


def test_what_runs_as_planned_goes_on() -> None:
    plan = with_router()
    found = replan(plan, on_record(plan))
    assert set(fates(found).values()) == {"keep"}
    assert (found.runs, found.same, found.disturbs) == (True, True, False)


def test_a_flag_of_the_router_restarts_the_router_alone() -> None:
    plan = with_router()
    router = plan.of_units({"router"})[0]
    found = replan(changed(plan, "router", argv=(*router.argv, "--page-size", "64")), on_record(plan))
    assert fates(found) == {"prefill": "keep", "decode": "keep", "router": "restart"}
    told = of(found, "router").changed or {}
    assert [(change.what, change.before, change.after) for change in told["router"]] == [("--page-size", None, "64")]
    assert found.disturbs
    assert found.to_json()["units"][2]["changed"]["router"][0]["what"] == "--page-size"


def test_one_rank_that_changes_restarts_its_instance_as_a_whole() -> None:
    plan = make_plan(3)
    first, *others = plan.processes
    after = plan.model_copy(update={"processes": (first.model_copy(update={"env": {"MODE": "x"}}), *others)})
    found = replan(after, on_record(plan))
    assert fates(found) == {"native": "restart"}
    assert [*(of(found, "native").changed or {})] == ["native/h1"]


@pytest.mark.parametrize(
    "update",
    [{"health": Health(http="/ready")}, {"wait_for": ("x",)}, {"connects": {"bootstrap": "1.2.3.4:9001"}}],
    ids=lambda update: next(iter(update)),
)
def test_what_no_process_is_started_with_restarts_none(update: dict[str, Any]) -> None:
    plan = with_router()
    found = replan(changed(plan, "decode", **update), on_record(plan))
    assert set(fates(found).values()) == {"keep"}
    assert not found.same, "the records are written anew"
    assert found.stale == ("h1", "h2", "h3")


def test_limits_are_written_and_restart_nothing() -> None:
    plan = with_router()
    limits = plan.limits.model_copy(update={"grace": 99.0})
    found = replan(plan.model_copy(update={"limits": limits}), on_record(plan))
    assert set(fates(found).values()) == {"keep"}
    assert found.stale == ("h1", "h2", "h3")


def test_hugepages_and_modules_restart_who_stands_on_them() -> None:
    plan = make_plan(2)
    pages = (Hugepages(path="/sys/x", value=3),)
    assert fates(replan(changed(plan, "native", hugepages=pages), on_record(plan))) == {"native": "restart"}
    first, other = plan.hosts
    moved = plan.model_copy(update={"hosts": (first.model_copy(update={"sysfs_root": "/x"}), other)})
    found = replan(moved, on_record(plan))
    assert fates(found) == {"native": "restart"}
    assert [change.what for change in (of(found, "native").changed or {})["native/h1"]] == ["sysfs_root"]


def test_the_way_to_a_host_restarts_nothing() -> None:
    plan = make_plan(2)
    first, other = plan.hosts
    moved = plan.model_copy(update={"hosts": (first.model_copy(update={"ssh": "gw"}), other)})
    assert fates(replan(moved, on_record(plan))) == {"native": "keep"}


@pytest.mark.parametrize(
    ("end", "rebooted", "words"),
    [
        ({"code": 3}, False, "native/h2 on h2: exit code 3"),
        ({"signal": 9}, False, "native/h2 on h2: killed by SIGKILL (9)"),
        (None, False, "native/h2 on h2: ended, and nobody saw how"),
        (None, True, "native/h2 on h2: gone, its host was booted anew"),
    ],
)
def test_an_instance_of_which_a_rank_has_ended_is_replaced(
    end: Mapping[str, int] | None, words: str, *, rebooted: bool
) -> None:
    plan = make_plan(3)
    found = replan(plan, on_record(plan, {"demo/native/h2": end}, rebooted=rebooted))
    native = of(found, "native")
    assert (native.fate, native.reasons, native.living) == ("restart", (words,), 2)
    assert not native.disturbs, "what has lost a rank serves nobody"


def test_who_ended_as_a_whole_just_starts() -> None:
    plan = make_plan(2)
    found = replan(plan, on_record(plan, {process.id: {"code": 1} for process in plan.processes}))
    assert of(found, "native") == UnitFate(
        "native", "start", ("native/h1 on h1: exit code 1, and 1 other too",), ended=2
    )


def test_a_half_started_instance_is_replaced() -> None:
    plan = make_plan(3)
    records = on_record(plan)
    silent = {name: HostRecords(name, None, None, ()) for name in ("h2", "h3")}
    hosts = {"h1": records.hosts["h1"], **silent}
    found = of(replan(plan, Records(hosts, {})), "native")
    assert (found.fate, found.reasons) == ("restart", ("native/h[2-3] of it were never started",))
    assert not found.disturbs


def with_odd_id(records: Records, host: str, odd: str) -> Records:
    """Give records in which the process of a host goes by another id."""
    there = records.hosts[host]
    rows = tuple(replace(row, id=odd) for row in there.processes)
    return Records({**records.hosts, host: replace(there, processes=rows)}, {})


@pytest.mark.parametrize("odd", ["evil", "demo/native/h9", "demo/native/h2", "x/decode/h1"])
def test_an_odd_record_is_no_proof_that_an_instance_serves_nobody(odd: str) -> None:
    plan = make_plan(2)
    found = replan(plan, with_odd_id(on_record(plan), "h1", odd))
    assert of(found, "native").fate == "restart"
    assert of(found, "native").disturbs
    assert all(unit.unit for unit in found.units), "every unit has a name"


def test_an_odd_record_hides_no_rank_that_is_known_to_have_ended() -> None:
    plan = make_plan(2)
    found = replan(plan, with_odd_id(on_record(plan, {"demo/native/h2": {"code": 1}}), "h1", "evil"))
    assert not of(found, "native").disturbs


def test_a_rank_on_a_host_that_cannot_be_asked_may_live() -> None:
    before, after = make_plan(2), changed(make_plan(1), "native", env={"A": "1"})
    records = on_record(before)
    found = of(replan(after, Records({"h1": records.hosts["h1"]}, {})), "native")
    assert (found.fate, found.disturbs) == ("restart", True)


def test_an_instance_that_moves_ends_only_after_a_question() -> None:
    before, after = make_plan(2), elsewhere(make_plan(2))
    found = of(replan(after, on_record(before)), "native")
    assert (found.fate, found.hosts, found.disturbs) == ("restart", ("h1", "h2"), True)


def elsewhere(plan: Plan) -> Plan:
    """Give a plan with all its processes on other hosts: h1 becomes n1."""
    hosts = tuple(host.model_copy(update={"host": host.host.replace("h", "n")}) for host in plan.hosts)
    processes = tuple(
        process.model_copy(update={"host": name, "id": f"{plan.name}/native/{name}"})
        for process in plan.processes
        for name in [process.host.replace("h", "n")]
    )
    door = plan.front_door.model_copy(update={"host": "n1"})
    return plan.model_copy(update={"hosts": hosts, "processes": processes, "front_door": door})


def test_what_failed_elsewhere_is_put_away_where_it_was() -> None:
    before, after = make_plan(2), elsewhere(make_plan(2))
    records = on_record(before, {process.id: {"code": 1} for process in before.processes})
    task = make_task(after, (), records)
    assert task.fates.of("start") == ("native",)
    stale = task.stale(records)
    assert {name: (part.ids, part.whole) for name, part in stale.items()} == {
        name: ((f"demo/native/{name}",), True) for name in ("h1", "h2")
    }


def test_a_host_that_is_left_with_nothing_but_a_plan_is_put_back_too() -> None:
    plan = make_plan(1)
    left = HostRecords("h9", None, plan, ())
    task = make_task(plan, (), Records({**on_record(plan).hosts, "h9": left}, {}))
    assert task.fates.of("keep") == ("native",)
    assert [*task.stale(Records({**on_record(plan).hosts, "h9": left}, {}))] == ["h9"]


def test_a_damaged_plan_cannot_be_compared() -> None:
    plan = make_plan(1)
    (there,) = on_record(plan).hosts.values()
    bare = HostRecords("h1", there.launch, None, there.processes, damaged=("plan.json is damaged",))
    found = of(replan(plan, Records({"h1": bare}, {})), "native")
    assert (found.fate, found.reasons) == ("restart", ("what native/h1 was started with is not on record",))
    assert found.disturbs


def test_instances_that_come_and_go() -> None:
    before = with_router()
    prefill, decode, router = before.processes
    other = prefill.model_copy(update={"id": "demo/prefill/new/h1", "instance": "new"})
    stages = (("prefill/new", "decode"), ("router",))
    after = before.model_copy(update={"processes": (other, decode, router), "stages": stages})
    found = replan(after, on_record(before))
    assert fates(found) == {"prefill/new": "start", "decode": "keep", "router": "keep", "prefill": "stop"}
    assert of(found, "prefill").reasons == ("it is not in the plan any more",)
    task = make_task(after, (), on_record(before))
    assert task.parts["h1"].ids == ("demo/prefill/h1",)
    assert task.parts["h1"].whole
    assert task.launch_id == "l1"
    assert task.written == ("h1", "h2", "h3")


def test_a_tokenizer_restarts_with_its_instance_and_not_the_other_way_round() -> None:
    plan = with_router()
    prefill, decode, router = plan.processes
    apart = {"id": "demo/tokenizer/prefill", "role": "tokenizer", "instance": "prefill", "wait_for": ("prefill",)}
    tokenizer = router.model_copy(update=apart)
    stages = (("prefill", "decode"), ("tokenizer/prefill",), ("router",))
    plan = plan.model_copy(update={"processes": (prefill, decode, tokenizer, router), "stages": stages})
    found = replan(changed(plan, "prefill", env={"A": "1"}), on_record(plan))
    begun = {"prefill": "restart", "decode": "keep", "tokenizer/prefill": "restart", "router": "keep"}
    assert fates(found) == begun
    assert of(found, "tokenizer/prefill").reasons == ("it belongs to prefill, which is started",)
    found = replan(changed(plan, "tokenizer/prefill", env={"A": "1"}), on_record(plan))
    assert fates(found) == {unit: "restart" if unit == "tokenizer/prefill" else "keep" for unit in begun}
    assert fates(replan(plan, on_record(plan), ("prefill",), anew=("prefill",))) == begun
    assert fates(replan(plan, Records({}, {}), ("prefill",)))["tokenizer/prefill"] == "leave"


def test_what_nobody_asked_about_is_left_alone() -> None:
    plan = with_router()
    found = replan(plan, on_record(plan, {"demo/prefill/h1": {"code": 1}}), ("router",), anew=("router",))
    assert fates(found) == {"prefill": "leave", "decode": "keep", "router": "restart"}
    assert of(found, "router").reasons == ("asked for",)


def test_everything_anew() -> None:
    plan = with_router()
    assert set(fates(replan(plan, on_record(plan), anew=())).values()) == {"restart"}


def _rank(plan: Plan, host: str) -> Process:
    return next(plan.on_host(host))


def test_a_rank_on_a_host_that_the_plan_has_no_more_restarts_its_instance() -> None:
    before, after = make_plan(3), make_plan(2)
    found = of(replan(after, on_record(before)), "native")
    assert (found.fate, found.hosts) == ("restart", ("h1", "h2", "h3"))
    assert found.reasons == ("native/h3 runs, and the plan has no such process",)
    task = make_task(after, (), on_record(before))
    assert {name: part.ids for name, part in task.parts.items()} == {
        host: (_rank(before, host).id,) for host in ("h1", "h2", "h3")
    }
    assert task.launch_id is None
